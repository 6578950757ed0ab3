"""Streams that are declared otherwise while queries run: random histories, and by hand what they hardly ever show.

Longer hunts: `python -m tests.oracle.hunt FIRST COUNT JOBS --streams`.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random

import pytest

from clash.model.stream import Stream

from .broken import STREAMS
from .case import Ask, Batch, Case, Change, Program, Setting
from .compare import ran
from .evolution import evolving_history
from .hunt import report
from .schemas import START
from .shrink import failure


@pytest.mark.parametrize("first", range(0, 24, 8))
def test_seeded_histories(first: int) -> None:
    for seed in range(first, first + 8):
        case = evolving_history(Random(seed))
        what = failure(case)
        assert what is None, "\n".join(report(seed, what, case))


def test_histories_have_what_they_are_for() -> None:
    seen: Counter[str] = Counter()
    for seed in range(100):
        case = evolving_history(Random(seed))
        seen["evolves"] += case.evolves
        declared = [stream for program in case.programs for stream in program.declared]
        seen["hidden"] += bool(case.hidden)
        seen["declared"] += bool(declared)
        seen["second"] += any(batch.second is not None and batch.second.declared for batch in case.batches)
        seen["retyped"] += any(dict(case.by_name[s.name].columns)[name] != kind for s in declared for name, kind in s.columns)
        seen.update({option for batch in case.batches for change in batch.changes for option, _ in change.options})
    assert case == evolving_history(Random(seed)), "a seed is one history"
    assert {kind for kind, count in seen.items() if count > 5} >= {
        "evolves",
        "hidden",
        "declared",
        "second",
        "retyped",
        "window",
        "lateness",
        "keep",
    }


_LONG = "/*+ WINDOW(R, 'unbounded', S, 'unbounded', T, 'unbounded', U, 'unbounded') */"
_CHAIN = "R JOIN S ON R.k = S.k JOIN T ON S.k = T.k JOIN U ON T.k = U.k"
_BOUND = "WHERE (T.ts <= R.ts + INTERVAL 1 SECONDS) AND (T.ts <= S.ts + INTERVAL 1 SECONDS)"


def _row(k: int, second: int) -> tuple[tuple[int, object], ...]:
    return ((k, START + timedelta(seconds=second)),)


def _longer(plan_seed: int) -> Case:
    """R and S, joined, are needed for as long as T's window allows: a longer one needs rows that an intermediate store of R and S has
    dropped. The stores of R and S have them for another query."""
    streams = tuple(
        Stream.of(
            name, {"k": "int", "ts": "timestamp"}, time="ts", window="1 second" if name == "T" else "100 seconds", lateness="0 seconds"
        )
        for name in "RSTU"
    )
    asks = (Ask("q", f"SELECT R.k, U.ts\nFROM {_CHAIN} {_BOUND}"), Ask("w", f"SELECT {_LONG} R.k\nFROM {_CHAIN}"))
    batches = (
        Batch(0, {name: _row(1, 0) for name in "RST"}),
        *(Batch(at, {name: _row(2, 9 + at) for name in "RSTU"}) for at in (1, 2)),
        Batch(3, {"U": _row(1, 12)}, changes=(Change("options", name="T", options=(("window", "50 seconds"),)),), plan_seed=plan_seed),
    )
    return Case(streams, asks, batches, Setting(plan_seed=plan_seed))


def test_an_intermediate_store_lacks_what_only_other_windows_need() -> None:
    noticed = 0
    for seed in (1, 17, 46, 75):
        case = _longer(seed)
        with ran(case) as run:
            assert run.found["q@3"].total() == 1
            assert [life.complete for life in run.lives if life.ask.name == "q"] == [0, 3]
        assert failure(case) is None
        with STREAMS["stores had the rows of other windows"]():
            noticed += "missing of" in str(failure(case))
    assert noticed, "no plan has the store any more: take other seeds"


def test_rows_that_are_retained_lack_a_later_column() -> None:
    """All that there was of them is there, and still not what a query needs that reads the column."""
    streams = (Stream.of("R", {"a": "int", "x": "int"}, keep="all"), Stream.of("S", {"a": "int"}, keep="all"))
    pairs = Ask("q", "SELECT R.a\nFROM R JOIN S ON R.a = S.a")
    reads_x = Ask("p", "SELECT R.x\nFROM R JOIN S ON R.a = S.a")
    batches = (
        Batch(0, {"R": ((1, 10),)}),
        Batch(1, {"R": ((1, 11),)}, restart=True, program=Program((pairs,), declared=streams[:1])),
        Batch(2, {"S": ((1,),)}, changes=(Change("add", reads_x),)),
    )
    case = Case(streams, (pairs,), batches, hidden=(("R", "x"),))
    with ran(case) as run:
        assert [*run.found["p@2"].elements()] == [(2, (11,))]
    assert failure(case) is None
    with STREAMS["retained columns were always there"]():
        assert "1 extra of 1" in str(failure(case))


_BY_HAND = ("stores had the rows of other windows", "retained columns were always there")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STREAMS if name not in _BY_HAND])
def test_a_broken_rule_is_noticed(name: str) -> None:
    with STREAMS[name]():
        seed = next((seed for seed in range(200) if failure(evolving_history(Random(seed)))), None)
    assert seed is not None, name
    assert failure(evolving_history(Random(seed))) is None, "it goes wrong anyhow, which shows nothing"
