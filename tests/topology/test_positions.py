"""The position, (round, phase), of every step and of every fill."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from clash.model.stream import Stream
from clash.optimizer import Plan
from clash.plan.topology import Position, ProbeRule, Topology
from clash.topology.build import build_topology

from .plans import by_hand, plans

CHAIN = {"q1": "R(a), S(a,b), T(b)"}
FED = ["q1: S T R", "q1: T S R", "q1: R ST", "ST: S T", "ST: T S"]


def at(topology: Topology) -> dict[str, tuple[int, int]]:
    """Where each partial result is made, by origin and relations, and each MIR is filled."""
    found = {f"{rule.origin}: {rule.bound}": tuple(rule.position) for rule in topology.rules if isinstance(rule, ProbeRule)}
    return found | {store.id[:4]: tuple(store.fill) for store in topology.stores if store.join is not None}


def test_a_key_that_changes_takes_a_round_and_a_mir_one_more() -> None:
    made = build_topology(by_hand(CHAIN, FED, {"R": "a", "S": "b", "T": "b", "ST": "S.a"}))
    assert at(made) == {
        "S: S ⋈ T": (1, 0),
        "S: R ⋈ S ⋈ T": (2, 0),
        "T: S ⋈ T": (1, 0),
        "T: R ⋈ S ⋈ T": (2, 0),
        "m_S_": (2, 0),
        "R: R ⋈ S ⋈ T": (2, 0),
    }
    assert made.rounds == 2


def test_rows_that_stay_take_a_phase() -> None:
    made = build_topology(by_hand({"q1": "R(b), S(b), T(b)"}, FED, {"R": "b", "S": "b", "T": "b", "ST": "S.b"}))
    assert made.rounds == 1
    assert at(made)["m_S_"] == (1, 1)
    assert at(made)["R: R ⋈ S ⋈ T"] == (1, 1)
    assert at(made)["S: R ⋈ S ⋈ T"] == (1, 0)


def test_one_worker_has_one_round() -> None:
    made = build_topology(by_hand(CHAIN, FED, {"R": "a", "S": "b", "T": "b", "ST": "S.a"}, workers=1))
    assert made.rounds == 1
    assert {store.fill for store in made.stores} == {Position(1, 0), Position(1, 1)}


@pytest.mark.parametrize(
    ("layouts", "stays", "rounds"),
    [
        ({"R": "a", "S": "*", "T": "a"}, (True, True), 1),  # along with R's own copy, which is at hash of a; S leaves it there
        ({"R": "1", "S": "*", "T": "1"}, (True, True), 1),
        ({"R": "*", "S": "*", "T": "a"}, (False, False), 2),
        ({"R": "a", "S": "*", "T": "*"}, (True, True), 1),
        ({"R": "a", "S": "a", "T": "a"}, (True, True), 1),
        ({"R": "1", "S": "a", "T": "a"}, (False, True), 1),
        ({"R": "a", "S": "a", "T": "1"}, (True, False), 2),
        ({"R": "a", "S": "b", "T": "a"}, (False, False), 2),  # a broadcast: nothing is claimed after it
    ],
)
def test_places(layouts: dict[str, str], stays: tuple[bool, bool], rounds: int) -> None:
    texts = {"q1": "R(a), S(a), T(a)", "q2": "S(b), V(b)"}
    made = build_topology(by_hand(texts, ["q1: R S T"], {**layouts, "V": "b"}))
    edges = [edge for edge in made.edges if edge.carries is not None]
    assert tuple(edge.stays for edge in edges) == stays
    assert made.rounds == rounds


def test_equality_that_rounds_keeps_no_place() -> None:
    """`bigint = double` joins, but the two hash apart."""
    plan = by_hand({"q1": "R(a), S(a), T(a)"}, ["q1: R S T"], {"R": "a", "S": "a", "T": "a"})
    kinds = {"R": "bigint", "S": "bigint", "T": "double"}
    streams = {name: Stream.of(name, {"a": kind}) for name, kind in kinds.items()}
    made = build_topology(replace(plan, request=replace(plan.request, streams=streams)))
    assert made.rounds == 2
    assert [key.exact for rule in made.rules if isinstance(rule, ProbeRule) for key in rule.keys] == [True, False]


@given(plans())
def test_as_many_rounds_as_the_planner_says(plan: Plan) -> None:
    """Under `full`, where rounds are part of the cost. The topology may find a place that a heuristic plan did not care for."""
    if plan.request.cost == "full":
        assert plan.topology.rounds == plan.rounds
