"""Orders merge into trees where, and only where, they agree."""

from __future__ import annotations

from clash.plan.topology import ProbeRule, Topology
from clash.topology.build import build_topology

from .plans import by_hand


def shape(topology: Topology, origin: str) -> list[tuple[str, str, str]]:
    """(from, edge, to) of one probe tree."""
    root = next(o for o in topology.origins if str(o.relation) == origin)
    found, todo = [], [(origin, label) for label in root.out]
    while todo:
        source, label = todo.pop(0)
        edge = topology.edge[label]
        name = f"{topology.store[edge.store].stream}[{edge.layout}]"
        found.append((source, label, name))
        rule = topology.rule[edge.store, label]
        assert isinstance(rule, ProbeRule)
        todo += [(name, out) for out in rule.out]
    return found


def test_the_paper_s_probe_tree() -> None:
    text = {"s1": "R(d), S(d,b), T(b)", "s2": "R(d), S(d,e), W(e)", "s3": "R(a), U(a)"}
    layouts = {"R": "d", "S": "d", "T": "b", "W": "e", "U": "a"}
    made = build_topology(by_hand(text, ["s1: R S T", "s2: R S W", "s3: R U"], layouts))
    assert shape(made, "R") == [("R", "e6", "S[d]"), ("R", "e7", "U[a]"), ("S[d]", "e8", "T[b]"), ("S[d]", "e9", "W[e]")]
    assert [made.rule[made.edge[e].store, e].emits for e in ("e6", "e7", "e8", "e9")] == [(), ("s3",), ("s1",), ("s2",)]  # type: ignore[union-attr]


def test_orders_that_differ_in_layout_or_filter_are_two_nodes() -> None:
    text = {"q1": "SELECT R.a FROM R JOIN S ON R.a = S.a", "q2": "SELECT R.a FROM R JOIN S ON R.a = S.a WHERE S.b > 1"}
    made = build_topology(by_hand(text, ["q1: R S", "q2: R S", "q1: S R", "q2: S R"], {"R": "a", "S": "a"}))
    assert [len(o.out) for o in made.origins] == [2, 1, 1]  # S with and without its filter are two origins
    assert len({o.start for o in made.origins}) == 3


def test_a_prefix_that_feeds_costs_no_node() -> None:
    text = {"q1": "R(a), S(a,b), T(b)"}
    orders = ["q1: S T R", "q1: T S R", "q1: R ST", "ST: S T", "ST: T S"]
    made = build_topology(by_hand(text, orders, {"R": "a", "S": "b", "T": "b", "ST": "S.a"}))
    probes = [rule for rule in made.rules if isinstance(rule, ProbeRule)]
    assert len(probes) == 5
    fed = [rule for rule in probes if rule.feeds]
    assert [(str(rule.bound), rule.emits, len(rule.out)) for rule in fed] == [("S ⋈ T", (), 1), ("S ⋈ T", (), 1)]


def test_one_relation_goes_straight_to_the_result() -> None:
    made = build_topology(by_hand({"q1": "SELECT R.a FROM R WHERE R.a > 1"}, ["q1: R"], {}))
    assert [(o.emits, o.out) for o in made.origins] == [(("q1",), ())]
    assert (made.stores, made.edges, made.rounds) == ((), (), 1)
