"""A plan as text of at most 100 columns (long names aside): what is asked, what happens to a tuple, what it costs, how good it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clash.explain import wording
from clash.explain.legend import legend
from clash.explain.shares import Shares, share_costs
from clash.explain.wording import listed, number, percent, plural
from clash.model.query import Query
from clash.planner.orders import ProbeOrder
from clash.planner.plan import Plan
from clash.topology.trees import Node

WIDTH = 100
Row = tuple[str, str, tuple[str, ...]]  # a probe order, its cost, notes


def explain_text(plan: Plan, *, compare: bool = True, seconds: bool = True) -> str:
    """`compare` plans for the other strategies too; without `seconds` the same plan always gives the same text."""
    shares = share_costs(plan)
    rows = _Rows(plan, shares)
    blocks = [_header(plan, seconds)]
    blocks += [_query(plan, query, rows) for query in plan.queries]
    blocks += [_intermediates(plan, rows, shares), _stores(plan, shares), _costs(plan, shares)]
    blocks += [_strategies(plan) if compare else [], legend(plan)]
    return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks if block) + "\n"


def _header(plan: Plan, seconds: bool) -> list[str]:
    asked, rounds = plan.asked, plan.topology.rounds
    streams = {relation.stream for query in plan.queries for relation in query.join.relations}
    options = [
        f"strategy {asked.strategy}",
        f"cost model {asked.cost}",
        "one layout per store" if asked.layouts == "one" else "many layouts",
    ]
    options += [] if asked.mirs else ["no intermediate results"]
    found = [f"cost {number(plan.cost)}", proof(plan.cost, plan.bound, plan.optimal), f"{plural(rounds, 'round')} per batch"]
    found += [f"found in {plan.seconds:.2f} s"] if seconds else []
    title = f"{plural(len(plan.queries), 'query')} over {plural(len(streams), 'stream')} on {plural(plan.workers, 'worker')}"
    lines = [f"PLAN for {title}", "  " + " · ".join(options), "  " + " · ".join(found)]
    if not plan.complete:
        lines.append("  the queries are too large to look at every plan")
    return lines


def proof(cost: float, bound: float, optimal: bool) -> str:
    """What is proven, in words."""
    if optimal:
        return "proven optimal"
    if bound <= 0:
        return "no bound proven"
    return f"no plan costs less than {number(bound)} ({percent((cost - bound) / cost)} below)"


class _Rows:
    """The lines of probe orders; all blocks align on the same columns."""

    def __init__(self, plan: Plan, shares: Shares) -> None:
        self.plan, self.shares = plan, shares
        self.of = {id(order): self._row(order, nodes) for order, nodes in zip(plan.probe_orders, shares.forest.paths, strict=True)}
        self.cost = max((len(row[1]) for row in self.of.values()), default=0)
        wide = max((len(_lead(order)) + len(self.of[id(order)][0]) for order in plan.probe_orders), default=0)
        self.width = min(wide, WIDTH - len("   cost ") - self.cost)

    def lines(self, order: ProbeOrder) -> list[str]:
        path, cost, notes = self.of[id(order)]
        lead = _lead(order)
        lines = [f"{lead}{path}"]
        if len(lines[0]) > self.width:
            lines.append("")
        lines[-1] = f"{lines[-1]:<{self.width}}   cost {cost:>{self.cost}}"
        if notes and len(lines[-1]) + 3 + len("; ".join(notes)) <= WIDTH:
            lines[-1] += f"   {'; '.join(notes)}"
        else:
            lines += [" " * (len(lead) + 2) + note for note in notes]
        return lines

    def _row(self, order: ProbeOrder, nodes: Sequence[Node]) -> Row:
        return wording.path(order, self.plan.workers), number(order.cost), tuple(self._notes(order, nodes))

    def _notes(self, order: ProbeOrder, nodes: Sequence[Node]) -> Iterable[str]:
        """The longest common part with every other query, the longest part first. What feeds a MIR shares with its own query too:
        where that one's orders take the same steps, feeding costs no probe."""
        told = set(order.queries)
        for i in range(len(nodes), 0, -1):
            node = nodes[i - 1]
            using = self.shares.users[node] if order.queries else [q.name for q in self.plan.queries if q.name in _passing(node)]
            others = [name for name in using if name not in told]
            if others:
                told.update(others)
                what = "all of it" if i == len(nodes) and i > 1 else wording.path(order, self.plan.workers, i)
                yield f"shares {what} with {listed(others)}"


def _lead(order: ProbeOrder) -> str:
    return "  " if order.feeds is None else "    fed by "


def _passing(node: Node) -> set[str]:
    """The queries whose own orders pass through the node."""
    return {name for below in node.walk() for name in below.emits}


def _query(plan: Plan, query: Query, rows: _Rows) -> list[str]:
    indent = "  "
    lines = _wrap(f"{query.name} = ", _chain(query), "")
    renamed = [f"{name} is {relation}" for name, relation in query.aliases if name != str(relation)]
    for word, said, between in (
        ("on", wording.keys(query), " and "),
        ("where", wording.conditions(query), " and "),
        ("within", wording.windows(query), ", "),
        ("", renamed, ", "),
    ):
        if said:
            lines += _wrap(f"{indent}{word} ".replace("   ", "  "), said, between)
    mine = [order for order in plan.probe_orders if query.name in order.queries]
    if mine and mine[0].queries[0] != query.name:
        return [*lines, f"  the same join as {mine[0].queries[0]}: answered by the same probe orders"]
    for order in mine:
        if order.steps:
            lines += rows.lines(order)
        else:
            lines.append(f"  {order.origin}   goes straight to the result")
    return lines


def _chain(query: Query) -> list[str]:
    """`R`, `⋈ S`, …: pieces to break a long join between."""
    return [f"{'⋈ ' if i else ''}{relation}" for i, (_, relation) in enumerate(query.aliases)]


def _intermediates(plan: Plan, rows: _Rows, shares: Shares) -> list[str]:
    lines = ["INTERMEDIATE RESULTS that are kept"]
    for store in plan.stores:
        if store.key.join is not None:
            owner = f"{store.key.owner}'s " if store.key.owner is not None else ""
            name = f"{owner}{wording.store_name(store.key)}"
            lines.append(f"  {name}   {number(store.rows)} rows, for {listed(shares.store_users[store.key])}")
            for order in plan.probe_orders:
                if order.feeds == store.key:
                    lines += rows.lines(order)
    return lines if len(lines) > 1 else []


def _stores(plan: Plan, shares: Shares) -> list[str]:
    if not plan.stores:
        return []
    costly = any(store.cost for store in plan.stores)
    table = [("STORES", "rows", "cost" if costly else "", "used by")]
    for store in plan.stores:
        name = f"{wording.store_name(store.key)}{' '.join(f'[{layout}]' for layout in store.layouts)}"
        name = f"  {store.key.owner}'s {name}" if store.key.owner is not None else f"  {name}"
        users = shares.store_users[store.key]
        everyone = len(users) == len(plan.queries) > 3
        table.append((name, number(store.rows), number(store.cost) if costly else "", "all queries" if everyone else listed(users)))
    return _table(table)


def _costs(plan: Plan, shares: Shares) -> list[str]:
    """The shares add up to the total; what is counted in full does not."""
    if len(plan.queries) == 1 and not (shares.stores or shares.feeds or shares.rounds):
        return []
    lines = []
    if len(plan.queries) > 1:
        table = [("COST per query", "its share", "counted in full", "")]
        table += [(f"  {q.name}", number(shares.own[q.name]), number(shares.full[q.name]), "") for q in plan.queries]
        table.append(("  in all", number(shares.total), "", ""))
        lines += _table(table)
    parts = [
        ("probes", shares.probes),
        ("feeding intermediate results", shares.feeds),
        ("stores", shares.stores),
        ("rounds", shares.rounds),
    ]
    said = [f"{name} {number(cost)}" for name, cost in parts if cost]
    if len(said) > 1:
        lines += _wrap("  of which " if lines else "COST  ", said, ", ")
    return lines


def _strategies(plan: Plan) -> list[str]:
    if len(plan.queries) == 1:  # nothing to share
        return []
    compared = plan.compare()
    most = max((c.cost for c in compared), default=0.0)
    table = [("STRATEGIES", "cost", "", "stores", "")]
    for c in compared:
        name = f"{'▸' if c.strategy == plan.strategy else ' '} {c.strategy}"
        share = percent(c.cost / compared[0].cost) if compared[0].cost > 0 else ""
        bar = "█" * max(1, round(20 * c.cost / most)) if most > 0 else ""
        said = proof(c.cost, c.bound, c.optimal)
        if c.strategy != "global":  # of what each query does alone; the bound is one on all plans
            said = "each query alone optimal" if c.strategy == "independent" and c.optimal else "" if c.strategy == "shared" else said
        table.append((name, number(c.cost), f"{share:>5}  {bar:<20}", str(c.stores), said))
    lines = _table(table, left=(0, 2, 4))
    if compared[0].cost < min(c.cost for c in compared[1:]):
        lines.append("  independent: every query has stores of its own, laid out as it likes best")
    return lines


def _table(rows: Sequence[tuple[str, ...]], left: tuple[int, ...] = (0, 3)) -> list[str]:
    """Columns three apart, numbers to the right; a column without any text is left out."""
    used = [i for i in range(len(rows[0])) if any(row[i] for row in rows)]
    width = {i: max(len(row[i]) for row in rows) for i in used}
    return ["   ".join(f"{row[i]:<{width[i]}}" if i in left else f"{row[i]:>{width[i]}}" for i in used) for row in rows]


def _wrap(lead: str, parts: Sequence[str], between: str) -> list[str]:
    """Parts in a row, broken between two of them; what follows stands below the first."""
    lines, line = [], lead
    for i, part in enumerate(parts):
        piece = part + (between.rstrip(" ") if i + 1 < len(parts) else "")
        gap = "" if line == lead or line.isspace() else " "
        if gap and len(line) + 1 + len(piece) > WIDTH:
            lines.append(line)
            line, gap = " " * len(lead), ""
        line += gap + piece
    return [*lines, line]
