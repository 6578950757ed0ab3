"""The oracle itself: against nested loops, and against histories worked out by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

import clash
from clash.model.stream import Stream
from clash.optimizer import validate

from .case import Ask, Batch, Case
from .generate import random_case
from .nested import run_nested
from .oracle import expect
from .plans import random_plan
from .schemas import START
from .shrink import smallest

_S = 1_000_000


def _at(second: float) -> object:
    from datetime import timedelta

    return START + timedelta(seconds=second)


def _pair(**more: str) -> tuple[Stream, Stream]:
    return (
        Stream.of("R", {"a": "int", "ts": "timestamp"}, time="ts", window="2 seconds", **more),  # type: ignore[arg-type]
        Stream.of("S", {"a": "int", "ts": "timestamp"}, time="ts", window="5 seconds", **more),  # type: ignore[arg-type]
    )


_JOIN = Ask("q", "SELECT R.ts AS r, S.ts AS s\nFROM R JOIN S ON R.a = S.a")


def _results(case: Case) -> Counter[tuple[int, int, int]]:
    base = int(START.timestamp()) * _S
    return Counter({(b, (r - base) // _S, (s - base) // _S): n for (b, (r, s)), n in expect(case).results["q"].items()})


def test_windows_are_per_relation_and_closed() -> None:
    rows = {"R": ((1, _at(0)),), "S": ((1, _at(2)), (1, _at(3)), (1, _at(-5)), (1, _at(-6)), (2, _at(0)), (None, _at(0)))}
    assert _results(Case(_pair(), (_JOIN,), (Batch(0, rows),))) == {(0, 0, 2): 1, (0, 0, -5): 1}


def test_late_rows_are_below_the_watermark_of_earlier_batches() -> None:
    first = Batch(0, {"R": ((1, _at(10)), (1, _at(1))), "S": ((1, _at(10)),)})
    second = Batch(0, {"R": ((1, _at(9)), (1, _at(8)), (1, None)), "S": ((1, _at(9)),)})
    case = Case(_pair(lateness="1 second"), (_JOIN,), (first, second))
    assert _results(case) == {(0, 10, 10): 1, (1, 9, 10): 1, (1, 9, 9): 1, (1, 10, 9): 1}
    found = expect(case)
    assert found.late["R"].total() == 2
    assert not found.late["S"]
    assert found.watermarks[0] == {"R": None, "S": None}


def test_an_idle_stream_is_lifted_to_the_smallest_of_the_others() -> None:
    first, second = Batch(0, {"R": ((1, _at(10)),), "S": ((1, _at(1)),)}), Batch(3 * _S, {"R": ((1, _at(12)),)})
    third = Batch(4 * _S, {"S": ((1, _at(11)), (1, _at(9)))})
    r, s = _pair(lateness="0 seconds")
    found = expect(Case((r, replace(s, idle=2 * _S)), (_JOIN,), (first, second, third)))
    base = int(START.timestamp()) * _S
    assert [marks["S"] for marks in found.watermarks] == [None, base + 10 * _S, base + 12 * _S]
    assert found.late["S"].total() == 2


def test_a_stream_without_a_time_has_the_time_of_its_batch() -> None:
    streams = (Stream.of("R", {"a": "int"}, window="2 seconds"), Stream.of("S", {"a": "int"}, window="5 seconds"))
    ask = Ask("q", "SELECT R.a\nFROM R JOIN S ON R.a = S.a")
    batches = (Batch(0, {"R": ((1,),)}), Batch(2 * _S, {"S": ((1,),)}), Batch(2 * _S + 1, {"S": ((1,),), "R": ((1,), (1,))}))
    assert expect(Case(streams, (ask,), batches)).results["q"] == {(1, (1,)): 1, (2, (1,)): 4}


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_agrees_with_nested_loops(first: int) -> None:
    for seed in range(first, first + 20):
        case = random_case(Random(seed), most_rows=6, most_queries=2)
        case = replace(case, streams=tuple(replace(stream, idle=None) for stream in case.streams))
        wide = max(len(query.aliases) for query in case.parsed) > 3
        if not wide and case.count() < 60:
            assert expect(case) == run_nested(case), seed


def test_random_plans_are_valid_and_differ() -> None:
    kept = rounds = 0
    for seed in range(40):
        case = random_case(Random(seed))
        base = clash.optimize(case.texts, streams=case.streams, windows=case.windows, workers=3, cost="probe", mirs=False, time_limit=0.0)
        plan = random_plan(Random(seed), base)
        validate(plan)
        assert plan.topology == random_plan(Random(seed), base).topology, "a seed is one plan"
        kept += sum(store.key.join is not None for store in plan.stores)
        rounds = max(rounds, plan.rounds)
    assert kept > 20
    assert rounds > 2


def test_shrinking_keeps_what_is_wrong() -> None:
    def wrong(case: Case) -> str | None:
        return "wrong" if any(len(batch.rows.get("R", ())) > 1 for batch in case.batches) else None

    case = next(c for c in (random_case(Random(seed)) for seed in range(99)) if c.count() > 50 and len(c.queries) > 2 and wrong(c))
    small = smallest(case, wrong)
    assert small.count() == 2
    assert len(small.queries) == len(small.batches) == 1
