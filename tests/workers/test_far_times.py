"""Event times at both ends of what a timestamp can hold: results are what the definition says, and no sum wraps around."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest

from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream

FIRST, LAST, SECOND = -(2**63), 2**63 - 1, 1_000_000
TAUS = [FIRST, FIRST + 3 * SECOND, FIRST + 9 * SECOND, -(2**62), -1, 0, 2**62, 8 * 10**18, LAST - 9 * SECOND, LAST - 3 * SECOND, LAST]
WINDOWS = {"R": None, "S": "5 seconds", "T": "3650000 days"}
KINDS = {"a": "int", "n": "int", "ts": "timestamp"}


def streams(lateness: str | None = None) -> list[Stream]:
    return [Stream.of(name, KINDS, time="ts", window=window, lateness=lateness) for name, window in WINDOWS.items()]


def table(taus: dict[int, int | None]) -> pa.Table:
    times = pa.array(list(taus.values()), pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    ones = pa.array([1] * len(taus), pa.int32())
    return pa.table({"a": ones, "n": pa.array(list(taus), pa.int32()), "ts": times})


@pytest.mark.parametrize("mirs", [True, False])
@pytest.mark.parametrize("names", [("R", "S"), ("S", "T"), ("R", "S", "T")])
def test_results_are_what_the_definition_says(names: tuple[str, ...], mirs: bool) -> None:
    joins = " ".join(f"JOIN {name} ON {name}.a = {names[0]}.a" for name in names[1:])
    query = f"SELECT {', '.join(f'{name}.n AS {name}' for name in names)} FROM {names[0]} {joins}"
    declared = {stream.name: stream for stream in streams()}
    engine = InProcessEngine([declared[name] for name in names], {"q": query}, mirs=mirs)
    for some in (range(0, len(TAUS), 2), range(1, len(TAUS), 2)):
        engine.batch({name: table({n: TAUS[n] for n in some}) for name in names})
    expected = []
    for row in product(range(len(TAUS)), repeat=len(names)):
        spans = [(max(TAUS[n] for n in row) - TAUS[n], declared[name].window) for name, n in zip(names, row, strict=True)]
        if all(window is None or span <= window for span, window in spans):
            expected.append(row)
    assert sorted(tuple(row.values()) for row in engine.results("q").to_pylist()) == expected


def test_a_watermark_before_the_first_time_makes_nothing_late() -> None:
    engine = InProcessEngine(streams("10 seconds")[:2], {"q": "SELECT R.n FROM R JOIN S ON R.a = S.a"})
    for _ in range(2):
        engine.batch({name: table({0: FIRST, 1: None}) for name in "RS"})
    assert engine.results("q").num_rows == 4
    assert engine.late("R").num_rows == 2
