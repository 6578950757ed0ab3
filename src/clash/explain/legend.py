"""The meaning of the signs in a plan's text; only signs that occur are explained."""

from __future__ import annotations

from clash.explain.wording import BROADCAST, CROSSES, STAYS, arrow
from clash.model.layout import ALL, ONE
from clash.plan.logical import LogicalPlan

_LINE_WIDTH = 97  # the text is 100 columns wide, and the legend is indented


def legend(plan: LogicalPlan) -> list[str]:
    """The last lines of the text: the signs, and the unit of the costs."""
    unit = (
        "tuples sent into probes, per window"
        if plan.request.cost == "probe"
        else "tuples sent per window; probes, inserts, memory and rounds are converted into that unit"
    )
    return [f"  {line}" for line in (*_wrap(_signs(plan)), f"cost is in {unit}")]


def _signs(plan: LogicalPlan) -> dict[str, str]:
    """Sign → meaning."""
    arrows = {arrow(step, plan.workers) for order in plan.probe_orders for step in order.steps}
    layouts = {layout for store in plan.stores for layout in store.layouts}
    hash_columns = sorted(layout.column for layout in layouts if layout.kind == "hash" and layout.column is not None and not layout.hot)
    signs = {}
    if CROSSES in arrows:
        signs[CROSSES] = "then probes" if plan.workers == 1 else "goes to one worker and probes there"
    if STAYS in arrows:
        signs[STAYS] = "probes on the worker where it is"
    if BROADCAST in arrows:
        signs[BROADCAST] = f"goes to all {plan.workers} workers, because the key is not known yet"
    if hash_columns:
        signs[f"[{hash_columns[0]}]"] = f"partitioned by hash of {hash_columns[0]}"
    with_hot = sorted(str(layout) for layout in layouts if layout.hot)
    if with_hot:
        signs[f"[{with_hot[0]}]"] = "rows with its most frequent values are spread; tuples that look for one go to all workers"
    if any(layout.kind == "hash" and layout.column is None for layout in layouts):
        signs["[~]"] = "distributed evenly"
    if ONE in layouts:
        signs["[1]"] = "on one worker"
    if ALL in layouts:
        signs["[*]"] = "a copy on every worker"
    second_alias = min((r for query in plan.queries for r in query.join.relations if r.number == 1), default=None)
    if second_alias is not None:
        signs[str(second_alias)] = f"the second alias of {plan.streams[second_alias.stream].kind} {second_alias.stream} in a query"
    return signs


def _wrap(signs: dict[str, str]) -> list[str]:
    lines: list[str] = []
    for sign, meaning in signs.items():
        entry = f"{sign} {meaning}"
        if lines and len(lines[-1]) + 3 + len(entry) <= _LINE_WIDTH:
            lines[-1] += f" · {entry}"
        else:
            lines.append(entry)
    return lines
