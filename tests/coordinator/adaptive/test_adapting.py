"""Adapting end to end: statistics of an epoch are estimated in the next one, and a better plan takes effect in the one after."""

from __future__ import annotations

from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa

from clash.coordinator.adaptive.replanner import Policy
from clash.inprocess.engine import InProcessEngine
from clash.model.statistics import Statistics
from clash.model.stream import Stream

COLUMNS = {"R": "a", "S": "ab", "T": "bc", "U": "c"}
STREAMS = [
    Stream.of(n, {**dict.fromkeys(columns, "bigint"), "ts": "timestamp"}, time="ts", window="4 seconds", lateness="0 seconds")
    for n, columns in COLUMNS.items()
]
QUERY = "SELECT R.a, S.b, T.c FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b JOIN U ON T.c = U.c"
ROWS = 400  # of a stream in a batch, which is a second and an epoch


def tables(batch: int, fan: int = 1) -> dict[str, pa.Table]:
    """Each tuple is part of one result. With a fan an S finds that many R but no T, and a T as many U but no S."""
    keys = np.arange(batch * ROWS, (batch + 1) * ROWS)
    few = keys // fan * fan if fan > 1 else keys
    apart = {("S", "b"): 1 << 40, ("T", "b"): 1 << 41} if fan > 1 else {}
    times = pa.array([batch * 1_000_000] * ROWS, pa.timestamp("us", "UTC"))
    return {
        name: pa.table({**{c: (few if c in "ac" else keys) + apart.get((name, c), 0) for c in columns}, "ts": times})
        for name, columns in COLUMNS.items()
    }


def engine(statistics: Statistics | None) -> InProcessEngine:
    run = InProcessEngine(STREAMS, {"q": QUERY}, workers=4, adaptive=True, statistics=statistics)
    run.coordinator.replanner.policy = Policy(
        estimate_interval=0, estimate_interval_if_drifted=0, solver_pause=0, solver_pause_if_drifted=0, solver_seconds=0
    )  # batches are the only clock
    return run


def play(run: InProcessEngine, first: int, last: int, fan: int = 1) -> dict[str, list[pa.Table]]:
    """The rows that were played, by stream."""
    played: dict[str, list[pa.Table]] = {name: [] for name in COLUMNS}
    for batch in range(first, last):
        for name, table in tables(batch, fan).items():
            played[name].append(table)
        run.batch({name: of_stream[-1] for name, of_stream in played.items()})
        run.coordinator.replanner.wait()
    return played


def check(run: InProcessEngine, played: list[dict[str, list[pa.Table]]]) -> None:
    """The results are those of the batch join."""
    with duckdb.connect() as connection:
        for name in COLUMNS:
            connection.register(name, pa.concat_tables([table for part in played for table in part[name]]))
        near = " AND ".join(f"abs(epoch({x}.ts) - epoch({y}.ts)) <= 4" for x, y in ("RS", "RT", "RU", "ST", "SU", "TU"))
        expected = connection.execute(f"{QUERY} WHERE {near}").fetchall()
    results = run.results("q")
    assert Counter(zip(*(column.to_pylist() for column in results.columns), strict=True)) == Counter(expected)


def true_statistics() -> Statistics:
    stored = 4.0 * ROWS
    equalities = ("R.a = S.a", "S.b = T.b", "T.c = U.c")
    return Statistics(rates=dict.fromkeys(COLUMNS, stored), selectivities=dict.fromkeys(equalities, 1 / stored))


def test_a_change_in_the_data_is_answered_two_epochs_later() -> None:
    run = engine(true_statistics())
    played = [play(run, 0, 12)]
    before = len(run.generations)
    played.append(play(run, 12, 20, fan=100))
    adapted = [generation for generation in run.generations[before:] if "statistics moved" in generation["reason"]]
    assert adapted[0]["batch"] == 14  # collected in epoch 12, estimated in 13, in effect from 14 on
    assert adapted[0]["predicted_new"] < 0.9 * adapted[0]["predicted_old"]
    check(run, played)


def test_a_start_without_statistics_is_corrected() -> None:
    run = engine(None)
    played = [play(run, 0, 8)]
    guessed, corrected = run.generations[:2]
    assert guessed["reason"] == "start"
    assert corrected["batch"] in (2, 3)
    assert "statistics moved" in corrected["reason"]
    check(run, played)


def test_nothing_changes_while_the_data_does_not() -> None:
    run = engine(true_statistics())
    play(run, 0, 6)
    settled = len(run.generations)
    play(run, 6, 24)
    assert len(run.generations) == settled
