"""What hunts have found, as small as it gets."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random

import pytest

from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash.plan.topology import ProbeRule, StoreRule, Topology

from .case import Ask, Batch, Case, Change, Setting, table
from .compare import differences, ran
from .nested import run_nested
from .oracle import expect
from .runs import Run
from .schemas import START
from .shrink import failure
from .starts import plan_of


def _filled_twice(topology: Topology) -> bool:
    """Is there an intermediate store that gets rows in two rounds, and is probed in a later one?"""
    for store in topology.stores:
        rules = [rule for rule in topology.rules if rule.store == store.id]
        filled = {rule.position.round for rule in rules if isinstance(rule, StoreRule)}
        probed = {rule.position.round for rule in rules if isinstance(rule, ProbeRule)}
        if len(filled) > 1 and probed and max(probed) > max(filled):
            return True
    return False


def test_what_a_worker_wrote_in_earlier_rounds_is_told_in_any_order() -> None:
    """Round 3 merged what round 2 had written; round 4 heard of round 3 first, and had those rows twice."""
    streams = tuple(Stream.of(name, {"a": "int", "b": "int"}) for name in "RS")
    joins = " ".join(f"JOIN {'RS'[n % 2]} x{n} ON x{n}.{'ba'[n % 2]} = x{n - 1}.{'ba'[n % 2]}" for n in range(1, 6))
    ask = Ask("q", f"SELECT x0.a AS o0, x5.b AS o1\nFROM R x0 {joins}")
    rng = Random(3)
    rows = {name: tuple((rng.randrange(2), rng.randrange(2)) for _ in range(5)) for name in "RS"}
    case = Case(streams, (ask,), (Batch(0, rows),), Setting(partitions=3, options=(("block_rows", 2),)))
    plans = (replace(case, setting=replace(case.setting, plan_seed=seed)) for seed in range(100))
    found = list(islice((planned for planned in plans if _filled_twice(plan_of(planned).topology)), 3))
    assert found, "no plan fills a store in two rounds any more: write another query"
    for planned in found:
        for seed in range(4):
            assert differences(replace(planned, setting=replace(planned.setting, seed=seed))) == []


def test_rows_of_which_nothing_is_read_count() -> None:
    """The stream had no column that anybody wanted, so its rows were lost on the way."""
    streams = (Stream.of("R", {"a": "int"}), Stream.of("S", {"n": "array<int>", "b": "int"}))
    asks = (Ask("q", "SELECT R.a\nFROM R CROSS JOIN S"), Ask("one", "SELECT 1 AS one\nFROM S"))
    batches = (Batch(0, {"R": ((1,), (2,)), "S": (([], 1), (None, None))}), Batch(1, {"S": (([3], 1),)}))
    for workers in (1, 3):
        assert differences(Case(streams, asks, batches, Setting(workers=workers))) == []


def test_a_column_that_was_dropped_is_missing_when_it_comes_back() -> None:
    """No row came while it was not kept, so the log had no entry that said so: results were called complete that lacked the older rows."""
    streams = (Stream.of("R", {"a": "int", "s": "string"}), Stream.of("S", {"a": "int"}))
    wide = Ask("q1", "SELECT R.s\nFROM R JOIN S ON R.a = S.a")
    narrow = Ask("q2", "SELECT R.a\nFROM R JOIN S ON R.a = S.a")
    batches = (
        Batch(0, {"R": ((1, "x"),)}, changes=(Change("add", narrow),)),
        Batch(1, changes=(Change("remove", name="q1"),)),
        Batch(2, {"S": ((1,),)}, changes=(Change("replace", replace(wide, name="q2")),)),
    )
    for workers in (1, 2):
        case = Case(streams, (wide,), batches, Setting(workers=workers))
        assert differences(case) == []
        run = Run(case)
        for number, batch in enumerate(batches):
            run.step(number, batch)
        assert [life.complete for life in run.lives if life.first == 2] == [None]


def test_late_rows_of_other_times_have_other_columns() -> None:
    kinds = {"a": "int", "b": "int", "ts": "timestamp"}
    streams = [Stream.of(name, kinds, time="ts", window="1 second", lateness="0 seconds") for name in "RS"]
    engine = InProcessEngine(streams, {"q": "SELECT R.a FROM R JOIN S ON R.a = S.a"})
    engine.batch({s.name: table(s, [(1, 2, START)]) for s in streams})
    late = {s.name: table(s, [(3, 4, START - timedelta(seconds=1))]) for s in streams}
    engine.batch(late)
    engine.add_query("p", "SELECT R.b FROM R JOIN S ON R.a = S.a")
    engine.batch(late)
    found = engine.late("R")
    assert sorted(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True), key=str) == [(3, 4), (3, None)]


def test_a_plan_with_several_layouts_is_no_start_where_one_is_allowed() -> None:
    """Changing the workers plans anew, and starts from the plan that runs: two of its steps wanted two layouts, of which none was left."""
    streams = (Stream.of("R", {"a": "int", "b": "int"}), Stream.of("S", {"a": "int", "b": "int"}))
    ask = Ask("q", "SELECT x0.a AS o\nFROM R x0 JOIN S x1 ON x1.a = x0.a JOIN S x2 ON x2.b = x0.b JOIN S x3 ON x3.a = x1.a")
    rows = dict.fromkeys("RS", ((1, 1), (1, 2)))
    for seed in range(1, 60, 4):
        batches = (Batch(0, rows, plan_seed=seed), Batch(1, rows, changes=(Change("rescale", workers=2),)))
        assert differences(Case(streams, (ask,), batches, Setting(workers=1))) == []


def test_a_plan_for_other_windows_is_for_other_queries() -> None:
    """It was given before the query was replaced by one with the same text, and went on to be used, with the windows of then."""
    streams = tuple(Stream.of(name, {"a": "int"}, window="5 seconds") for name in "RS")
    ask = Ask("q", "SELECT R.a\nFROM R JOIN S ON R.a = S.a")
    narrow = Change("replace", replace(ask, windows=(("R", "1 second"),)))
    second = 1_000_000
    batches = (
        Batch(0, {"R": ((1,),)}),
        Batch(second, plan_seed=4),
        Batch(2 * second, changes=(narrow,)),
        Batch(3 * second, {"S": ((1,),)}),
    )
    assert differences(Case(streams, (ask,), batches, Setting(epoch=2))) == []


def test_a_layout_that_only_a_query_alone_has() -> None:
    """U ⋈ R lay by arrival for the CROSS JOIN, which is no layout where another query may join it, and wants it in none: KeyError."""
    streams = (Stream.of("R", {"a": "int"}), Stream.of("S", {"b": "int"}), Stream.of("U", {"a": "int", "b": "int"}))
    crossed = Ask("q0", "SELECT x0.a\nFROM U x0 JOIN R x1 ON x1.a = x0.a CROSS JOIN U x2")
    joined = Ask("q1", "SELECT x0.b\nFROM U x0 JOIN R x1 ON x1.a = x0.a JOIN R x2 ON x2.a = x0.a JOIN S x3 ON x3.b = x0.b")
    rows = {"R": ((1,), (2,)), "S": ((1,), (1,)), "U": ((1, 1), (2, 1), (2, None))}
    for strategy in ("global", "shared"):
        assert differences(Case(streams, (crossed, joined), (Batch(0, rows), Batch(1, rows)), Setting(strategy=strategy))) == []


def _later(*changes: Batch) -> Case:
    """T comes later, in an epoch of three batches."""
    streams = tuple(Stream.of(name, {"a": "int"}) for name in "RT")
    return Case(streams, (Ask("q", "SELECT R.a\nFROM R"),), changes, Setting(epoch=3))


_ROWS = {"R": ((1,),), "T": ((1,),)}
_SELF = Change("add", Ask("t", "SELECT x.a\nFROM T x JOIN T y ON x.a = y.a"))
_T = Change("stream", name="T")


def test_a_border_that_is_asked_for_stays_so_until_it_is_on_record() -> None:
    """The first attempt had taken note of it; the second was no border, and the first rows of T were read past."""
    for point in ("before-record", "after-generation", "after-record"):
        assert differences(_later(Batch(0, _ROWS), Batch(1), Batch(2, _ROWS, changes=(_T, _SELF), fail=(point, 1)))) == []


def test_a_stream_that_waits_for_a_query_is_not_read_past() -> None:
    """It counted as if rows of it had gone by: its first query was never called complete."""
    case = _later(*(Batch(n, _ROWS, changes=(_T,) if n == 1 else (_SELF,) if n == 7 else ()) for n in range(9)))
    with ran(case) as run:
        assert [(life.first, life.complete) for life in run.lives if life.ask.name == "t"] == [(7, 7)]
        assert run.begins["T"] == 7
    assert differences(case) == []


@pytest.mark.parametrize(
    "condition",
    [
        "(R.ts - S.ts <= INTERVAL 10 SECONDS)",  # local times: an hour that occurs twice
        "(R.ts <= S.ts + INTERVAL 1 DAY)",  # of the calendar: 25 hours
        "(R.ts - INTERVAL 1 DAY <= S.ts)",  # which is another condition
        "(R.ts - INTERVAL 12 HOURS - INTERVAL 12 HOURS <= S.ts)",  # 24 hours
        "(HOUR(R.ts) = HOUR(S.ts))",
    ],
)
def test_a_zone_changes_its_clock(condition: str) -> None:
    change = datetime(2024, 10, 27, 1, tzinfo=UTC)
    seconds = [0, -1, 5, -3600, 3599, 3600, -86_400, 86_400, 90_000, -90_000, 82_800]
    rows = tuple((1, change + timedelta(seconds=at)) for at in seconds)
    streams = tuple(Stream.of(name, {"a": "int", "ts": "timestamp"}, time="ts", lateness="0 seconds") for name in "RS")
    ask = Ask("q", f"SELECT R.ts AS r, S.ts - INTERVAL 1 DAY AS s\nFROM R JOIN S ON R.a = S.a WHERE {condition}")
    batches = (Batch(0, {"R": rows[:6], "S": rows}), Batch(1, {"R": rows[6:]}), Batch(2, {"S": rows}))
    for zone in ("Europe/Berlin", "UTC"):
        case = Case(streams, (ask,), batches, Setting(timezone=zone))
        assert failure(case) is None, zone
        assert run_nested(case) == expect(case), zone


def test_a_query_after_a_batch_without_tuples_reads_no_rows_that_were_filled_in_before_it() -> None:
    """The batch in which an intermediate store was introduced and filled in had no arrival number, so the query seemed as old as the
    store: it read NULL for a column that it had been filled in without."""
    streams = (Stream.of("R", {"a": "int", "c": "int"}, keep="all"), Stream.of("S", {"a": "int", "b": "int"}), Stream.of("T", {"b": "int"}))
    joins = "FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b"
    wide = Change("add", Ask("q2", f"SELECT R.c\n{joins}"))
    for seed in range(40):  # some plans have a store for R and S
        batches = (
            Batch(0, {"R": ((1, 7),), "S": ((1, 2),)}),
            Batch(1, plan_seed=seed),
            Batch(2, {"T": ((2,),)}, changes=(wide,), plan_seed=seed),
        )
        case = Case(streams, (Ask("q1", f"SELECT T.b\n{joins}"),), batches, Setting(workers=1))
        assert failure(case) is None, f"plan seed {seed}"
