"""What the results of a probe step carry, and in what pieces they come."""

from __future__ import annotations

from typing import Any

import pytest

import clash
from clash.model.block_columns import ARRIVAL, DEADLINE, EARLIEST, LATEST, NUMBER_BITS, part_event_time
from clash.model.relation import Relation
from clash.plan.visibility import VisibilityBounds
from clash.workers.probe import probe_step

from ..topology.plans import by_hand
from .batches import SECOND, arrival, checkpoint, stored, stream
from .probing import JOIN, containers_of, one_worker, probing, rows_of


def test_results_carry_the_latest_time_and_the_first_deadline() -> None:
    found = one_worker(JOIN, "9 seconds", "5 seconds")
    containers = containers_of(found, "s_S", stored(found, "s_S", [1, 2], a=1, v=[1, 2], time=[10, 14]))
    (result,) = probe_step(found.plan, found.step("R", "S"), probing(found, "R", [8], a=1, time=[12], v=[6]), containers, 10)
    assert sorted(rows_of(result), key=lambda row: row["S.v"]) == [
        {ARRIVAL: arrival(8), LATEST: 12 * SECOND, DEADLINE: 15 * SECOND, "R.v": 6, "S.v": 1},
        {ARRIVAL: arrival(8), LATEST: 14 * SECOND, DEADLINE: 19 * SECOND, "R.v": 6, "S.v": 2},
    ]


def test_an_intermediate_row_carries_the_times_of_its_parts() -> None:
    """S finds T, which is stored; R finds that row, whose deadline is that of its parts."""
    streams = [stream(name, window) for name, window in (("R", "9 seconds"), ("S", "5 seconds"), ("T", "7 seconds"))]
    text = {"q": "SELECT R.v, S.v AS w FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b"}
    orders = ["q: S T R", "q: T S R", "q: R ST", "ST: S T", "ST: T S"]
    found = checkpoint(by_hand(text, orders, {"R": "a", "S": "b", "T": "b", "ST": "S.a"}, 1, streams))
    containers = containers_of(found, "s_T", stored(found, "s_T", [1], b=1, time=[10]))
    (made,) = probe_step(found.plan, found.step("S", "T"), probing(found, "S", [4], a=2, b=1, v=[6], time=[12]), containers, 10)
    times = {part_event_time(Relation("S")): [12 * SECOND], part_event_time(Relation("T")): [10 * SECOND]}
    assert {name: made.columns[name].to_pylist() for name in times} == times
    (mir,) = (store.id for store in found.topology.stores if store.join is not None)
    kept = containers_of(found, mir, made)
    assert kept[0].record.time_ranges == ((12 * SECOND, 12 * SECOND), (10 * SECOND, 10 * SECOND))

    def found_by(number: int, time: int) -> list[dict[str, Any]]:
        results = probe_step(found.plan, found.step("R", "S T"), probing(found, "R", [number], a=2, time=[time], v=[8]), kept, 10)
        return [row for result in results for row in rows_of(result)]

    assert found_by(5, 17) == [{ARRIVAL: arrival(5), LATEST: 17 * SECOND, DEADLINE: 17 * SECOND, "R.v": 8, "S.v": 6}]
    assert found_by(5, 18) == []  # S is out of its window
    assert found_by(3, 12) == []  # the row was completed later


def test_results_carry_their_first_arrival_where_a_query_has_no_history() -> None:
    streams = [stream("R"), stream("S")]
    plan = clash.optimize({"q": JOIN}, streams=streams, workers=1, time_limit=0.0)
    bounds = VisibilityBounds(without_history={"q": arrival(3)}, oldest={"s_S": 0, "s_R": 0})
    found = checkpoint(plan, bounds)
    containers = containers_of(found, "s_S", stored(found, "s_S", [1, 4], a=1, v=[1, 4]))
    (result,) = probe_step(found.plan, found.step("R", "S"), probing(found, "R", [8], a=1), containers, 10)
    assert sorted(result.columns[EARLIEST].to_pylist()) == [arrival(1), arrival(4)]


@pytest.mark.parametrize("piece", [1, 3, 7, 100])
def test_pieces_are_bounded_and_their_union_is_complete(piece: int) -> None:
    plain = one_worker()
    blocks = [stored(plain, "s_S", range(at, at + 5), a=[0, 0, 0, 0, 1], v=list(range(at, at + 5))) for at in (0, 5, 10)]
    containers = containers_of(plain, "s_S", *blocks)
    block = probing(plain, "R", [20, 21, 22], a=[0, 1, 0])
    results = list(probe_step(plain.plan, plain.step("R", "S"), block, containers, piece))
    assert [result.rows for result in results] == [piece] * (27 // piece) + [27 % piece] * (27 % piece > 0)
    matches = [(row[ARRIVAL] >> NUMBER_BITS, row["S.v"]) for result in results for row in rows_of(result)]
    expected = [(n, v) for n, a in ((20, 0), (21, 1), (22, 0)) for v in range(15) if (v % 5 == 4) == (a == 1)]
    assert sorted(matches) == expected
