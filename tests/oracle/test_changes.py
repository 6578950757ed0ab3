"""Queries, streams and programs that come and go, random plans and workers at every border, or the planner's own, late rows, restarts and
failures: what DuckDB gives, always.

Longer hunts: `python -m tests.oracle.hunt FIRST COUNT JOBS --changes`. That a hunt would notice is tested with rules broken one by one.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from random import Random

import pytest

from clash.model.statistics import Statistics
from clash.model.stream import Stream

from . import case as parts
from .broken import BROKEN, PROGRAMS, row_filters_do_not_count
from .case import Ask, Batch, Case, Change
from .compare import ran
from .histories import random_history
from .hunt import report
from .programs import after, same
from .shrink import failure

_NAMES = {**vars(parts), "Statistics": Statistics, "datetime": datetime, "Decimal": Decimal, "nan": float("nan"), "inf": float("inf")}


@pytest.mark.parametrize("first", range(0, 36, 12))
def test_seeded_histories(first: int) -> None:
    for seed in range(first, first + 12):
        case = random_history(Random(seed))
        what = failure(case)
        assert what is None, "\n".join(report(seed, what, case))


def test_histories_have_what_they_are_for() -> None:
    seen: Counter[str] = Counter()
    for seed in range(240):
        case = random_history(Random(seed))
        seen.update(_kinds(case))
        assert repr(eval(repr(case), _NAMES)) == repr(case), "what is shown is Python"
    assert case == random_history(Random(seed)), "a seed is one history"
    wanted = {"add", "remove", "replace", "rescale", "fresh", "plan", "restart", "fail", "quiet", "epoch", "all", "again", "unread"}
    wanted |= {"adaptive", "stream", "declared", "program", "second", "listed", "dropped", "rewritten", "other workers", "windows"}
    wanted |= {"none", "own"}
    assert {kind for kind, count in seen.items() if count > 3} >= wanted


def test_the_planner_has_other_plans() -> None:
    """In a third of the histories it is the one that runs, with the statistics of the run."""
    changed = Counter[bool]()
    for seed in range(60):
        case = random_history(Random(seed))
        if case.setting.adaptive and len(changed) < 2:
            with ran(case) as run:
                changed[run.replanned > 1] += 1
    assert changed[True]


def _kinds(case: Case) -> Iterator[str]:
    for batch in case.batches:
        for change in batch.changes:
            yield change.kind
            if not change.history:
                yield "fresh"
        flags = {"plan": batch.plan_seed is not None, "restart": batch.restart, "fail": batch.fail is not None, "quiet": batch.quiet}
        yield from (name for name, flag in flags.items() if flag)
    for last, now in pairwise(case.programs):
        yield "program"
        then, lists = ({ask.name: ask for ask in program.queries} for program in (last, now))
        flags = {"listed": lists.keys() - then.keys(), "dropped": then.keys() - lists.keys(), "declared": now.streams}
        flags["rewritten"] = any(name in then and not same(then[name], ask) for name, ask in lists.items())
        flags["other workers"] = now.workers != last.workers
        yield from (name for name, flag in flags.items() if flag)
    if any(one.text == other.text and one.windows != other.windows for one in case.asks for other in case.asks):
        yield "windows"
    live = {ask.name: ask for ask in case.queries}
    lives = [live := after(change, live) for batch in case.batches for change in batch.changes]
    flags = {"epoch": case.setting.epoch > 1, "adaptive": case.setting.adaptive, "second": any(b.second for b in case.batches)}
    flags |= {"none": not all(lives), "own": case.setting.strategy == "independent"}
    yield from (name for name, flag in flags.items() if flag)
    if any(stream.keep == "all" for stream in case.streams):
        yield "all"
    names = Counter(ask.name for ask in case.asks)
    if max(names.values()) > 1:
        yield "again"
    first, ever = ({r.stream for ask in asks for r in case.parse(ask).join.relations} for asks in (case.queries, case.asks))
    if first != ever:
        yield "unread"


# ---- broken rules --------------------------------------------------------------------------------------------------


_FILTERED = Case(  # rows that a filter kept out are missing from a query without it: 150 random histories did not show it
    (Stream.of("R", {"a": "int", "p": "int"}), Stream.of("S", {"a": "int"})),
    (Ask("q0", "SELECT R.p\nFROM R JOIN S ON R.a = S.a WHERE (R.p > 0)"),),
    (
        Batch(0, {"R": ((1, 0), (1, 1))}),
        Batch(1, {"S": ((1,),)}, changes=(Change("add", Ask("q1", "SELECT R.p\nFROM R JOIN S ON R.a = S.a")),)),
    ),
)


def test_rows_that_were_filtered_out_are_missing() -> None:
    assert failure(_FILTERED) is None
    with row_filters_do_not_count():
        assert "1 missing of 2" in str(failure(_FILTERED))


_PLAIN = "SELECT R.p\nFROM R JOIN S ON R.a = S.a"
_DROPPED = Case(  # a column that nobody needed for a while is lost, also of rows that came before
    (Stream.of("R", {"a": "int", "p": "int"}), Stream.of("S", {"a": "int"})),
    (Ask("q0", _PLAIN),),
    (
        Batch(0, {"R": ((1, 1),)}),
        Batch(1, {"S": ((2,),)}, changes=(Change("replace", Ask("q0", "SELECT R.a\nFROM R JOIN S ON R.a = S.a")),)),
        Batch(2, {"S": ((1,),)}, changes=(Change("add", Ask("q1", _PLAIN)),)),
    ),
)
_GONE = Case(  # what has expired for all is missing from a query with a longer window
    tuple(
        Stream.of(name, {"a": "int", "p": "int", "ts": "timestamp"}, time="ts", window="2 seconds", lateness="0 seconds") for name in "RS"
    ),
    (Ask("q0", _PLAIN),),
    (
        *(Batch(at, {name: ((at, 0, datetime.datetime.fromtimestamp(10 * at, datetime.UTC)),) for name in "RS"}) for at in range(4)),
        Batch(
            4,
            {"S": ((0, 0, datetime.datetime.fromtimestamp(31, datetime.UTC)),)},
            changes=(Change("add", Ask("q1", _PLAIN, (("R", "60 seconds"), ("S", "60 seconds")))),),
        ),
    ),
)


@pytest.mark.parametrize(("name", "case"), [("dropped columns are still there", _DROPPED), ("nothing has gone", _GONE)])
def test_what_was_lost_is_told(name: str, case: Case) -> None:
    assert failure(case) is None
    with BROKEN[name]():
        assert "missing of" in str(failure(case))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BROKEN, *PROGRAMS])
def test_a_broken_rule_is_noticed(name: str) -> None:
    with {**BROKEN, **PROGRAMS}[name]():
        seed = next((seed for seed in range(400) if failure(random_history(Random(seed)))), None)
    assert seed is not None, name
    assert failure(random_history(Random(seed))) is None, "it goes wrong anyhow, which shows nothing"
