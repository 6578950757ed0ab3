"""A plan as text of at most 100 columns, unless names are long.

In this order: what was requested and how good the answer is, the probe orders per query, projections, outer queries, intermediate
results, stores, costs, the comparison of strategies, and the legend.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from clash.explain import wording
from clash.explain.computed import ComputedPart, computed_parts, moves_files, result_rows
from clash.explain.formats import Alternative, StrategyCost
from clash.explain.legend import legend
from clash.explain.shares import Shares, share_costs
from clash.explain.tables import align
from clash.explain.wording import join_names, number, percent, plural
from clash.model.query import Query, query_of
from clash.plan.logical import LogicalPlan, ProbeOrder, StorePlan
from clash.plan.options import BoundSource
from clash.plan.topology import Topology
from clash.planner.cardinalities import Sizes
from clash.topology.trees import Node

WIDTH = 100


class OrderLine(NamedTuple):
    """A probe order as it is written, before it is aligned with the others."""

    path: str
    cost: str
    notes: tuple[str, ...]


def explain_text(
    plan: LogicalPlan,
    topology: Topology,
    compared: Sequence[StrategyCost] | None = None,
    alternatives: Sequence[Alternative] | None = None,
    *,
    seconds: bool = True,
) -> str:
    """`seconds`: whether to show how long planning took; without it the same plan always gives the same text."""
    shares = share_costs(plan)
    order_lines = _OrderLines(plan, shares)
    blocks = [_header(plan, topology, seconds)]
    blocks += [_query(plan, query, order_lines) for query in plan.queries]
    blocks += [_projections(plan), _outer_queries(plan), _intermediate_results(plan, order_lines, shares), _stores(plan, shares)]
    blocks += [_tables(plan, shares), _computed(plan), _costs(plan, shares)]
    blocks += [[] if compared is None else _strategies(plan, compared), [] if alternatives is None else _worth(plan, alternatives)]
    blocks += [legend(plan)]
    return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks if block) + "\n"


def _projections(plan: LogicalPlan) -> list[str]:
    """What Spark computes of the rows of a join before they are published, and of how many rows."""
    projected = [(query, query.projection) for query in plan.queries if query.projection is not None]
    lines = ["COMPUTED by Spark of joined rows, in one job for each batch that has some"] if projected else []
    sizes = Sizes(plan.request.statistics, dict(plan.streams))
    for query, projection in projected:
        lines.append(f"  {query.name}   of {number(sizes.rows(query.join))} joined rows")
        given = {f"`{output.name}`" for output in query.outputs}
        columns = [f"{column.name} = {column.expression}" for column in projection.columns if column.expression not in given]
        for text in (*columns, *(f"where {condition}" for condition in projection.conditions)):
            lines += textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="      ", break_long_words=False)
    return lines


def _outer_queries(plan: LogicalPlan) -> list[str]:
    """What Spark computes of the results of a join, and of how many."""
    outer = [(query, query.outer) for query in plan.queries if query.outer is not None and query.name == query_of(query.name)]
    lines = ["OUTER QUERIES that Spark runs over the results of the joins"] if outer else []
    for query, part in outer:
        lines += [f"  {query.name}   of {number(result_rows(plan, query))} results", *_wrapped_sql(part.sql)]
        lines += ["  and over all groups", *_wrapped_sql(part.final)] if part.final is not None else []
    return lines


def _wrapped_sql(sql: str) -> list[str]:
    return textwrap.wrap(" ".join(sql.split()), WIDTH, initial_indent="    ", subsequent_indent="    ", break_long_words=False)


def _header(plan: LogicalPlan, topology: Topology, seconds: bool) -> list[str]:
    request, rounds = plan.request, topology.rounds
    streams = {relation.stream for query in plan.queries for relation in query.streams}
    tables = {relation.stream for query in plan.queries for relation in query.tables}
    read = [plural(len(streams), "stream"), *([plural(len(tables), "table")] if tables else [])]
    options = [
        f"strategy {request.strategy}",
        f"cost model {request.cost}",
        "one layout per store" if request.layouts == "one" else "many layouts",
    ]
    options += [] if request.mirs else ["no intermediate results"]
    outcome = [
        f"cost {number(plan.cost)}",
        proof(plan.cost, plan.bound, plan.optimal),
        f"{plural(rounds, 'round')} per batch",
    ]
    outcome += [f"found in {plan.seconds:.2f} s"] if seconds else []
    count = len({query_of(query.name) for query in plan.queries})
    title = f"{plural(count, 'query')} over {join_names(read)} on {plural(plan.workers, 'worker')}"
    lines = [f"PLAN for {title}", "  " + " · ".join(options), "  " + " · ".join(outcome)]
    if not plan.optimal and plan.bound > 0:
        lines.append(f"  the bound is {_SOURCES[plan.bound_source]}")
    if not plan.complete:
        lines.append("  the queries are too large to consider every plan")
    return lines


_SOURCES: Mapping[BoundSource, str] = {
    "solver": "the solver's",
    "relaxation": "that of the linear relaxation",
    "isolated queries": "what queries cost alone",
    "floor": "what every plan pays",
}


def proof(cost: float, bound: float, optimal: bool) -> str:
    """What the planner has proven about the cost, in words."""
    if optimal:
        return "proven optimal"
    if bound <= 0:
        return "no bound proven"
    return f"no plan costs less than {number(bound)} ({percent((cost - bound) / cost)} below)"


class _OrderLines:
    """The lines of all probe orders, aligned on the same columns across queries and intermediate results."""

    def __init__(self, plan: LogicalPlan, shares: Shares) -> None:
        self.plan, self.shares = plan, shares
        self.by_order = {id(order): self._line(order, nodes) for order, nodes in zip(plan.probe_orders, shares.forest.paths, strict=True)}
        self.cost_width = max((len(line.cost) for line in self.by_order.values()), default=0)
        longest = max((len(_lead(order)) + len(self.by_order[id(order)].path) for order in plan.probe_orders), default=0)
        self.path_width = min(longest, WIDTH - len("   cost ") - self.cost_width)

    def lines(self, order: ProbeOrder) -> list[str]:
        """The order with its cost; its notes follow on the same line if they fit, else below."""
        path, cost, notes = self.by_order[id(order)]
        lead = _lead(order)
        lines = [f"{lead}{path}"]
        if len(lines[0]) > self.path_width:
            lines.append("")
        lines[-1] = f"{lines[-1]:<{self.path_width}}   cost {cost:>{self.cost_width}}"
        if notes and len(lines[-1]) + 3 + len("; ".join(notes)) <= WIDTH:
            lines[-1] += f"   {'; '.join(notes)}"
        else:
            lines += [" " * (len(lead) + 2) + note for note in notes]
        return lines

    def _line(self, order: ProbeOrder, nodes: Sequence[Node]) -> OrderLine:
        return OrderLine(wording.path(order, self.plan.workers), number(order.cost), tuple(self._notes(order, nodes)))

    def _notes(self, order: ProbeOrder, nodes: Sequence[Node]) -> Iterable[str]:
        """With every other query the longest prefix of the order that both use, the longest prefix first.

        An order that only feeds an intermediate result is also compared with the queries that use it: where their own orders take the same
        steps, feeding costs no probe.
        """
        named = set(order.queries)
        for i in range(len(nodes), 0, -1):
            node = nodes[i - 1]
            using = self.shares.users[node] if order.queries else [q.name for q in self.plan.queries if q.name in _answered_below(node)]
            others = [name for name in using if name not in named]
            if others:
                named.update(others)
                prefix = "all of it" if i == len(nodes) and i > 1 else wording.path(order, self.plan.workers, i)
                yield f"shares {prefix} with {join_names(others)}"


def _lead(order: ProbeOrder) -> str:
    return "  " if order.feeds is None else "    fed by "


def _answered_below(node: Node) -> set[str]:
    """The queries whose own orders pass through the node."""
    return {name for below in node.walk() for name in below.emits}


def _query(plan: LogicalPlan, query: Query, order_lines: _OrderLines) -> list[str]:
    indent = "  "
    lines = _wrap(f"{query.name} = ", _join_parts(query), "")
    if query.name != query_of(query.name):
        lines.append(f"{indent}added to {query_of(query.name)} by UNION ALL")
    renamed = [f"{name} is {relation}" for name, relation in query.aliases if name != str(relation)]
    for word, parts, separator in (
        ("on", wording.keys(query), " and "),
        ("where", wording.conditions(query), " and "),
        ("within", wording.windows(query), ", "),
        ("", renamed, ", "),
    ):
        if parts:
            lines += _wrap(f"{indent}{word} ".replace("   ", "  "), parts, separator)
    orders = [order for order in plan.probe_orders if query.name in order.queries]
    if orders and orders[0].queries[0] != query.name:
        return [*lines, f"  the same join as {orders[0].queries[0]}: answered by the same probe orders"]
    for order in orders:
        if order.steps:
            lines += order_lines.lines(order)
        else:
            lines.append(f"  {order.origin}   goes directly into the result")
    for hull in dict.fromkeys(order.hull for order in orders if order.hull is not None):
        origins = [str(order.origin) for order in orders if order.hull == hull]
        lines += _wrap(f"{indent}of a weaker join, from {join_names(origins)}: checks ", wording.refinement(query, hull), ", ")
    return lines


def _join_parts(query: Query) -> list[str]:
    """`R`, `⋈ S`, …: a long join is wrapped between these parts."""
    return [f"{'⋈ ' if i else ''}{relation}" for i, (_, relation) in enumerate(query.aliases)]


def _intermediate_results(plan: LogicalPlan, order_lines: _OrderLines, shares: Shares) -> list[str]:
    lines = ["INTERMEDIATE RESULTS that are kept"]
    for store in plan.stores:
        if store.key.join is not None:
            owner = f"{store.key.owner}'s " if store.key.owner is not None else ""
            name = f"{owner}{wording.store_name(store.key)}"
            lines.append(f"  {name}   {number(store.rows)} rows, for {join_names(shares.store_users[store.key])}")
            for order in plan.probe_orders:
                if order.feeds == store.key:
                    lines += order_lines.lines(order)
    return lines if len(lines) > 1 else []


def _computed(plan: LogicalPlan) -> list[str]:
    """Columns that Spark computes where it reads a stream or a table, and those that tasks compute, each with the number of its rows."""
    parts = computed_parts(plan.streams.values(), plan.queries)
    by_spark = "which reads all streams of files for it: tasks read none" if moves_files(parts) else "when it reads these tables"
    blocks = [
        _computed_columns(plan, f"COMPUTED by Spark, {by_spark}", [part for part in parts if part.by_spark]),
        _computed_columns(plan, "COMPUTED by tasks that read the streams", [part for part in parts if not part.by_spark]),
    ]
    return [*blocks[0], *([""] if all(blocks) else []), *blocks[1]]


def _computed_columns(plan: LogicalPlan, title: str, parts: Sequence[ComputedPart]) -> list[str]:
    names = [f"  {part.stream}.{part.name}   of {number(plan.request.statistics.rate(part.stream))} rows" for part in parts]
    width = max(map(len, names), default=0)
    return [title, *(f"{name:<{width}}   {part.expression}" for name, part in zip(names, parts, strict=True))] if parts else []


def _stores(plan: LogicalPlan, shares: Shares) -> list[str]:
    return _store_lines("STORES", [store for store in plan.stores if not _is_table(plan, store)], plan, shares)


def _tables(plan: LogicalPlan, shares: Shares) -> list[str]:
    return _store_lines("TABLES", [store for store in plan.stores if _is_table(plan, store)], plan, shares)


def _is_table(plan: LogicalPlan, store: StorePlan) -> bool:
    return store.key.stream is not None and plan.streams[store.key.stream].is_table


def _store_lines(title: str, stores: Sequence[StorePlan], plan: LogicalPlan, shares: Shares) -> list[str]:
    if not stores:
        return []
    has_costs = any(store.cost for store in plan.stores)  # under the cost model `probe`, stores cost nothing
    table = [(title, "rows", "cost" if has_costs else "", "used by")]
    for store in stores:
        name = f"{wording.store_name(store.key)}{' '.join(f'[{layout}]' for layout in store.layouts)}"
        name = f"  {store.key.owner}'s {name}" if store.key.owner is not None else f"  {name}"
        users = shares.store_users[store.key]
        used_by = "all queries" if len(users) == len(plan.queries) > 3 else join_names(users)
        table.append((name, number(store.rows), number(store.cost) if has_costs else "", used_by))
    return align(table)


def _costs(plan: LogicalPlan, shares: Shares) -> list[str]:
    """Per query and per kind. The shares add up to the total; the costs counted in full do not."""
    if len(plan.queries) == 1 and not (shares.stores or shares.feeds or shares.rounds):
        return []
    lines = []
    if len(plan.queries) > 1:
        table = [("COST per query", "its share", "counted in full", "")]
        table += [(f"  {q.name}", number(shares.own[q.name]), number(shares.full[q.name]), "") for q in plan.queries]
        table.append(("  total", number(shares.total), "", ""))
        lines += align(table)
    by_kind = [
        ("probes", shares.probes),
        ("feeding intermediate results", shares.feeds),
        ("checking rows of weaker joins", shares.checks),
        ("stores", shares.stores),
        ("rounds", shares.rounds),
    ]
    parts = [f"{name} {number(cost)}" for name, cost in by_kind if cost]
    if len(parts) > 1:
        lines += _wrap("  of which " if lines else "COST  ", parts, ", ")
    return lines


def _strategies(plan: LogicalPlan, compared: Sequence[StrategyCost]) -> list[str]:
    if len(plan.queries) == 1:  # nothing to share
        return []
    highest = max((c.cost for c in compared), default=0.0)
    table = [("STRATEGIES", "cost", "", "stores", "")]
    for c in compared:
        name = f"{'▸' if c.strategy == plan.strategy else ' '} {c.strategy}"
        share = percent(c.cost / compared[0].cost) if compared[0].cost > 0 else ""
        bar = "█" * max(1, round(20 * c.cost / highest)) if highest > 0 else ""
        table.append((name, number(c.cost), f"{share:>5}  {bar:<20}", str(c.stores), _strategy_proof(c)))
    lines = align(table, left=(0, 2, 4))
    if compared[0].cost < min(c.cost for c in compared[1:]):
        lines.append("  independent: every query has its own stores, each in the layout that is best for that query")
    return lines


def _worth(plan: LogicalPlan, alternatives: Sequence[Alternative]) -> list[str]:
    """What each part of the plan is worth: the cost of a plan without it, or with more of it."""
    table = [("WORTH of the parts", "cost", "", "")]
    for a in alternatives:
        change = (a.cost - plan.cost) / plan.cost if plan.cost > 0 else 0.0
        compared = "the same" if abs(change) < 1e-9 else f"{percent(abs(change))} {'more' if change > 0 else 'less'}"
        table.append((f"  {a.name}", number(a.cost), compared, "proven optimal" if a.optimal else ""))
    return align(table, left=(0, 2, 3))


def _strategy_proof(strategy: StrategyCost) -> str:
    """What is proven of the plan of one strategy.

    `independent` is optimal for each query on its own. For `shared` nothing is shown: its bound is one on all plans, not on those that the
    strategy considers.
    """
    if strategy.strategy == "shared":
        return ""
    if strategy.strategy == "independent" and strategy.optimal:
        return "each query alone optimal"
    return proof(strategy.cost, strategy.bound, strategy.optimal)


def _wrap(lead: str, parts: Sequence[str], separator: str) -> list[str]:
    """`lead` and the parts, wrapped between two parts; further lines are indented by the width of `lead`."""
    lines, line = [], lead
    for i, part in enumerate(parts):
        piece = part + (separator.rstrip(" ") if i + 1 < len(parts) else "")
        gap = "" if line == lead or line.isspace() else " "
        if gap and len(line) + 1 + len(piece) > WIDTH:
            lines.append(line)
            line, gap = " " * len(lead), ""
        line += gap + piece
    return [*lines, line]
