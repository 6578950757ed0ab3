"""The paper's own examples: the walk-through, the example of two queries, the counts of its analysis, its probe tree.

Two slips are corrected: a MIR needs `x ≤ Σ x'` per input (the paper's `−k·x + Σ x' ≥ 0` would ask for k orders), and the cost row of
x3 is −175, not −150 (its steps cost 100 and 75). A linear query of n has n(n+1)/2 connected sub-joins, not n(n+1).
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cache

import pytest

import clash
from clash.optimizer import validate
from clash.plan.topology import ProbeRule
from clash.planner.cost_model import CostModel
from clash.planner.graph import Graph
from clash.planner.lattice import JoinGraph
from clash.planner.published_program import Order, PublishedProgram
from clash.planner.search_space import Options, build_space
from clash.sql import parse_queries

WALK_THROUGH = {"q1": "R(b), S(b,c), T(c)", "q2": "S(c), T(c,d), U(d)"}
EXAMPLE = {"q1": "R(a), S(a,b), T(b)", "q2": "S(b), T(b,c), U(c)"}
STATISTICS = clash.Statistics(default_rate=100, default_selectivity=0.01, sizes={("S", "T"): 150})


def graph_of(queries: dict[str, str], workers: int = 5, mirs: bool = True) -> Graph:
    parsed, streams = parse_queries(queries)
    return build_space(parsed, STATISTICS, streams, Options(CostModel("probe", workers, "one"), mirs=mirs)).graph


def short(graph: Graph, sub: int) -> str:
    return "".join(map(str, graph.lattice.subs[sub].relations))


class Program:
    """The published program, read back in the paper's words: orders as text, rows as {variable: coefficient}."""

    def __init__(self, queries: dict[str, str], workers: int = 5, mirs: bool = True) -> None:
        self.graph = graph_of(queries, workers, mirs)
        self.ilp = PublishedProgram(self.graph, self.graph.lattice.targets)
        milp = self.ilp.milp
        self.rows = [
            (dict(zip(milp.columns[a:b], milp.coefficients[a:b], strict=True)), low, high)
            for a, b, low, high in zip(milp.row_starts[:-1], milp.row_starts[1:], milp.row_lower, milp.row_upper, strict=True)
        ]

    def text(self, order: Order, layouts: bool = True) -> str:
        graph = self.graph
        origin = graph.nodes[graph.arcs[order.path[0][0]].tail].origin
        names = [str(origin)]
        for at, layout in order.path:
            name = short(graph, graph.arcs[at].probes)
            column = graph.stores[graph.arcs[at].store].layouts[layout].column
            names.append(f"{name}[{column}]" if layouts else name)
        return " ".join(names)

    def orders(self, goal: str) -> dict[str, list[Order]]:
        """Origin → its orders, for a query or a MIR named by its relations."""
        ends = {str(self.graph.nodes[end].origin): orders for end, orders in self.ilp.orders.items() if self._sub(end) == goal}
        return dict(sorted(ends.items()))

    def _sub(self, end: int) -> str:
        return short(self.graph, self.graph.nodes[end].sub)

    def undecorated(self, goal: str) -> dict[str, set[str]]:
        return {origin: {self.text(o, layouts=False) for o in orders} for origin, orders in self.orders(goal).items()}

    def named(self, goal: str, origin: str) -> dict[str, Order]:
        return {self.text(order): order for order in self.orders(goal)[origin]}


@pytest.fixture(scope="module")
def walk() -> Program:
    return Program(WALK_THROUGH)


def test_mirs(walk: Program) -> None:
    targets = {target.sub for target in walk.graph.lattice.targets}
    found = {short(walk.graph, sub.id) for sub in walk.graph.lattice.subs if sub.id not in targets}
    assert found == {"R", "S", "T", "U", "RS", "ST", "TU"}


@pytest.mark.parametrize(
    ("goal", "orders"),
    [
        ("RST", {"R": {"R S T", "R ST"}, "S": {"S T R", "S R T"}, "T": {"T S R", "T RS"}}),
        ("STU", {"S": {"S T U", "S TU"}, "T": {"T U S", "T S U"}, "U": {"U T S", "U ST"}}),
        ("RS", {"R": {"R S"}, "S": {"S R"}}),
        ("ST", {"S": {"S T"}, "T": {"T S"}}),
        ("TU", {"T": {"T U"}, "U": {"U T"}}),
    ],
)
def test_candidate_probe_orders(walk: Program, goal: str, orders: dict[str, set[str]]) -> None:
    assert walk.undecorated(goal) == orders


def test_orders_with_partitioning_for_q1_and_r(walk: Program) -> None:
    found = walk.named("RST", "R")
    assert set(found) == {"R S[b] T[c]", "R S[c] T[c]", "R S[b] T[d]", "R S[c] T[d]", "R ST[b]", "R ST[d]"}  # σ1 to σ6
    assert len(walk.orders("RST")["R"]) == 6


def test_prefixes_are_shared(walk: Program) -> None:
    """σ7 = ⟨R, S[b]⟩ begins σ1 and σ3, σ8 = ⟨R, S[c]⟩ σ2 and σ4; as orders of the MIR RS they are the same steps."""
    found = walk.named("RST", "R")
    first = {name: order.prefixes[0] for name, order in found.items()}
    feeds = {name: order.prefixes for name, order in walk.named("RS", "R").items()}
    assert feeds == {"R S[b]": (first["R S[b] T[c]"],), "R S[c]": (first["R S[c] T[c]"],)}
    assert first["R S[b] T[c]"] == first["R S[b] T[d]"]
    assert first["R S[c] T[c]"] == first["R S[c] T[d]"]
    assert len(set(first.values())) == 4
    assert len({prefix for order in found.values() for prefix in order.prefixes}) == 8


def test_a_step_of_two_queries_is_one_variable(walk: Program) -> None:
    assert walk.named("RST", "S")["S T[c] R[b]"].prefixes[0] == walk.named("STU", "S")["S T[c] U[d]"].prefixes[0]


def test_one_order_per_query_and_relation(walk: Program) -> None:
    for goal in ("RST", "STU"):
        for orders in walk.orders(goal).values():
            assert (dict.fromkeys([o.x for o in orders], 1.0), 1.0, 1.0) in walk.rows


def test_every_input_of_a_mir_is_fed(walk: Program) -> None:
    """x5 ≤ Σ x', once for S and once for T; σ6 needs the same orders, whatever the layout of ST."""
    found = walk.named("RST", "R")
    for name in ("R ST[b]", "R ST[d]"):
        for origin, candidates in (("S", {"S T[c]", "S T[d]"}), ("T", {"T S[b]", "T S[c]"})):
            feeders = walk.named("ST", origin)
            assert set(feeders) == candidates
            row = {found[name].x: 1.0} | {order.x: -1.0 for order in feeders.values()}
            assert (row, -math.inf, 0.0) in walk.rows


def test_cost_rows_and_goal(walk: Program) -> None:
    """−PCost(σ)·x + Σ StepCost·y ≥ 0 for every order; five workers are sent to where the key is not known."""
    costs = {
        "R S[b] T[c]": (100, 50),
        "R S[c] T[c]": (500, 50),
        "R S[b] T[d]": (100, 250),
        "R S[c] T[d]": (500, 250),
        "R ST[b]": (100,),
        "R ST[d]": (500,),
    }
    for name, order in walk.named("RST", "R").items():
        steps = [walk.ilp.step_cost[prefix] for prefix in order.prefixes]
        assert steps == pytest.approx(costs[name])
        row = {order.x: -sum(steps)} | {walk.ilp.y[prefix]: cost for prefix, cost in zip(order.prefixes, steps, strict=True)}
        assert (row, 0.0, math.inf) in walk.rows
        assert [walk.ilp.milp.costs[walk.ilp.y[prefix]] for prefix in order.prefixes] == steps
        assert walk.ilp.milp.costs[order.x] == 0.0


def test_layouts_are_one_per_store(walk: Program) -> None:
    columns = {short(walk.graph, s.singles[0]) if s.singles else short(walk.graph, s.sub or 0): s for s in walk.graph.stores}
    assert {name: {str(layout.column) for layout in s.layouts} for name, s in columns.items()} == {
        "R": {"b"},
        "S": {"b", "c"},
        "T": {"c", "d"},
        "U": {"d"},
        "RS": {"c"},
        "ST": {"b", "d"},
        "TU": {"c"},
    }


# ---- the example of two queries, without broadcasting and MIRs ---------------------------------------------------


def test_rows_of_the_example() -> None:
    program = Program(EXAMPLE, workers=1, mirs=False)

    def step(goal: str, origin: str, order: str, until: int) -> int:
        found = next(o for o in program.orders(goal)[origin] if program.text(o, layouts=False) == order)
        return program.ilp.y[found.prefixes[until]]

    def row(goal: str, origin: str, order: str) -> dict[int, float]:
        found = next(o for o in program.orders(goal)[origin] if program.text(o, layouts=False) == order)
        return next(r for r, low, high in program.rows if (low, high) == (0.0, math.inf) and r.get(found.x, 0) < 0)

    assert program.undecorated("RST")["S"] == {"S R T", "S T R"}
    assert program.undecorated("STU")["S"] == {"S T U"}
    assert sorted(row("RST", "S", "S R T").values()) == pytest.approx([-150, 50, 100])
    assert sorted(row("RST", "S", "S T R").values()) == pytest.approx([-175, 75, 100])
    assert sorted(row("STU", "S", "S T U").values()) == pytest.approx([-175, 75, 100])  # the paper prints −150
    assert step("RST", "S", "S T R", 0) == step("STU", "S", "S T U", 0)  # x_ST
    assert step("RST", "S", "S T R", 1) != step("STU", "S", "S T U", 1)


@pytest.mark.parametrize("formulation", ["published", "compact"])
@pytest.mark.parametrize("layouts", ["one", "many"])
def test_950_alone_and_800_together(formulation: str, layouts: str) -> None:
    def plan(strategy: str) -> clash.Plan:
        return clash.optimize(
            EXAMPLE, STATISTICS, workers=1, mirs=False, cost="probe", strategy=strategy, formulation=formulation, layouts=layouts
        )  # type: ignore[call-overload]

    def orders(found: clash.Plan) -> dict[str, set[str]]:
        return {
            query: {" ".join([str(o.origin), *(str(s.adds) for s in o.steps)]) for o in found.probe_orders if query in o.queries}
            for query in EXAMPLE
        }

    alone, shared, together = plan("independent"), plan("shared"), plan("global")
    for found in (alone, shared, together):
        validate(found)
    assert alone.cost == pytest.approx(950)
    assert alone.optimal
    assert orders(alone) == {"q1": {"R S T", "S R T", "T S R"}, "q2": {"S T U", "T U S", "U T S"}}
    assert {query: sum(o.cost for o in alone.probe_orders if query in o.queries) for query in EXAMPLE} == pytest.approx(
        {"q1": 475, "q2": 475}
    )
    assert shared.cost == pytest.approx(950)  # the orders that are best alone have no step in common
    assert together.cost == pytest.approx(800)
    assert together.optimal
    assert orders(together) == {"q1": {"R S T", "S T R", "T S R"}, "q2": {"S T U", "T S U", "U T S"}}
    costs = [step.cost for order in together.probe_orders for step in order.steps]
    assert [costs.count(c) for c in (100, 75, 50)] == [6, 4, 2]


def test_with_mirs_it_is_cheaper_still() -> None:
    options = {"workers": 1, "cost": "probe", "layouts": "many"}
    with_mirs, without = (clash.optimize(EXAMPLE, STATISTICS, mirs=mirs, **options) for mirs in (True, False))  # type: ignore[arg-type]
    # R » ST and U » ST: 100 each instead of 150; S » T and T » S, which feed it, run already
    assert (without.cost, with_mirs.cost) == pytest.approx((800, 700))


# ---- the probe tree ----------------------------------------------------------------------------------------------


def test_three_orders_make_one_tree() -> None:
    """⟨R, S[d], T[b]⟩, ⟨R, S[d], W[e]⟩ and ⟨R, U[a]⟩: two edges leave R, two leave S."""
    queries = {"s1": "R(d), S(d,b), T(b)", "s2": "R(d), S(d,e), W(e)", "s3": "R(a), U(a)"}
    plan = clash.optimize(queries, STATISTICS, workers=5, mirs=False, cost="probe", layouts="many")
    validate(plan)
    assert {str(o) for o in plan.probe_orders if str(o.origin) == "R"} == {"R » S[d] » T[b]", "R » S[d] » W[e]", "R » U[a]"}
    topology = plan.topology
    (root,) = (origin for origin in topology.origins if str(origin.relation) == "R")
    tree = {}
    for label in root.out:
        rule = topology.rule[topology.edge[label].store, label]
        assert isinstance(rule, ProbeRule)
        below = [topology.edge[out] for out in rule.out]
        name = topology.store[topology.edge[label].store].stream
        tree[name] = (rule.emits, {topology.store[edge.store].stream: edge.label for edge in below})
    assert {name: (emits, set(below)) for name, (emits, below) in tree.items()} == {"S": ((), {"T", "W"}), "U": (("s3",), set())}
    labels = [edge.label for edge in topology.edges]
    assert len(labels) == len(set(labels))


# ---- the analysis ------------------------------------------------------------------------------------------------


def linear(n: int) -> str:
    return ", ".join(f"R{i}(a{i},a{i + 1})" for i in range(n))


def star(n: int) -> str:
    return ", ".join([f"C({','.join(f'a{i}' for i in range(1, n))})", *(f"L{i}(a{i})" for i in range(1, n))])


def clique(n: int) -> str:
    return ", ".join(f"R{i}(k)" for i in range(n))


def connected(text: str) -> int:
    (query,), _ = parse_queries({"q": text})
    return len(JoinGraph(query).connected())


@pytest.mark.parametrize("n", range(2, 9))
def test_counts_of_mirs(n: int) -> None:
    assert connected(linear(n)) == n * (n + 1) // 2
    assert connected(star(n)) == 2 ** (n - 1) + n - 1  # the centre with any leaves, and the leaves alone
    assert connected(clique(n)) == 2**n - 1  # the paper counts the empty one too


def count_orders(text: str) -> dict[str, int]:
    """How many undecorated probe orders each relation has, by enumeration."""
    program = Program({"q": text}, workers=1)
    goal = "".join(sorted({str(r) for sub in program.graph.lattice.subs for r in sub.relations}))
    return {origin: len(orders) for origin, orders in program.undecorated(goal).items()}


@cache
def ordered_partitions(n: int) -> int:
    return sum(math.comb(n, k) * ordered_partitions(n - k) for k in range(1, n + 1)) if n else 1


@pytest.mark.parametrize("n", range(2, 6))
def test_counts_of_probe_orders(n: int) -> None:
    found = count_orders(linear(n))
    # from an end: the rest is cut into consecutive parts, at any of n − 2 places
    assert found["R0"] == found[f"R{n - 1}"] == 2 ** (n - 2)
    # from inside: both sides are cut, and their parts may come in any mixture
    for i in range(1, n - 1):
        left, right = i, n - 1 - i
        ways = sum(
            math.comb(left - 1, k - 1) * math.comb(right - 1, m - 1) * math.comb(k + m, k)
            for k in range(1, left + 1)
            for m in range(1, right + 1)
        )
        assert found[f"R{i}"] == ways
    spread = count_orders(star(n))
    assert spread["C"] == math.factorial(n - 1)
    leaf = sum(math.comb(n - 2, k) * math.factorial(n - 2 - k) for k in range(n - 1))  # the centre with k leaves first
    assert [spread[f"L{i}"] for i in range(1, n)] == [leaf] * (n - 1)
    assert set(count_orders(clique(n)).values()) == {ordered_partitions(n - 1)}


@pytest.mark.parametrize("n", range(2, 7))
def test_counts_of_partitionings(n: int) -> None:
    """A star's centre has n − 1 attributes to choose from, everything else has what it joins by."""
    graph = graph_of({"q": star(n)})
    assert Counter(len(store.layouts) for store in graph.stores if store.stream == "C") == {n - 1: 1}
    assert {len(store.layouts) for store in graph.stores if store.stream != "C" and store.stream is not None} == {1}
    ends = [store for store in graph_of({"q": linear(n)}).stores if store.stream in ("R0", f"R{n - 1}")]
    assert [len(store.layouts) for store in ends] == [1, 1]
