"""What the signs in a plan mean; only those that occur are explained."""

from __future__ import annotations

from clash.explain.wording import BROADCAST, CROSSES, STAYS, arrow
from clash.model.layout import ALL, ONE
from clash.planner.plan import Plan


def legend(plan: Plan) -> list[str]:
    steps = [step for order in plan.probe_orders for step in order.steps]
    arrows = {arrow(step, plan.workers) for step in steps}
    layouts = {layout for store in plan.stores for layout in store.layouts}
    hashed = sorted(layout.column for layout in layouts if layout.kind == "hash" and layout.column is not None)
    signs = {}
    what = (
        "tuples sent into probes"
        if plan.asked.cost == "probe"
        else "tuples sent, with probes, inserts, memory and rounds weighed against it"
    )
    if CROSSES in arrows:
        signs[CROSSES] = "then probes" if plan.workers == 1 else "goes to one worker and probes there"
    if STAYS in arrows:
        signs[STAYS] = "probes on the worker where it is"
    if BROADCAST in arrows:
        signs[BROADCAST] = f"goes to all {plan.workers} workers, as the key is not known yet"
    if hashed:
        signs[f"[{hashed[0]}]"] = f"spread by hash of {hashed[0]}"
    if any(layout.kind == "hash" and layout.column is None for layout in layouts):
        signs["[~]"] = "spread evenly"
    if ONE in layouts:
        signs["[1]"] = "on one worker"
    if ALL in layouts:
        signs["[*]"] = "a copy on every worker"
    again = min((r for query in plan.queries for r in query.join.relations if r.number == 1), default=None)
    if again is not None:
        signs[str(again)] = f"the second alias of stream {again.stream} in a query"
    lines, line = [], ""
    for sign, meaning in signs.items():
        piece = f"{sign} {meaning}"
        if line and len(line) + 3 + len(piece) > 97:
            lines.append(line)
            line = ""
        line = f"{line} · {piece}" if line else piece
    return [f"  {said}" for said in (*lines, line, f"cost is in {what}, per window") if said]
