"""What a long life with many changes leaves in `generations/`, and how long a start and `run.generations` take then.

Two arms: a coordinator in process whose every batch begins a generation, and a log to which as many generations are written as a change per
second gives in a day. Every other change adds a query of a new name, the next one removes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from clash.coordinator.adaptive.generation_cost import GenerationCost
from clash.coordinator.checkpoint.manifest import write_manifest
from clash.coordinator.control.job import QueryRequest
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash_bench.tables import note, write

WINDOW = 10  # seconds
COLUMNS = {"R": "abx", "S": "bcy", "T": "cdz"}
JOIN = "FROM R JOIN S ON R.b = S.b JOIN T ON S.c = T.c"
QUERIES = {f"standing_{at}": f"SELECT R.a, T.d + {at} AS v {JOIN}" for at in range(5)}
STREAMS = [
    Stream.of(name, {**dict.fromkeys(columns, "bigint"), "ts": "timestamp"}, time="ts", window=f"{WINDOW} seconds", lateness="0 seconds")
    for name, columns in COLUMNS.items()
]


@dataclass(frozen=True)
class LongLife:
    arm: str
    generations: int
    files: int
    """In `generations/`, with the history."""
    megabytes: float
    bytes_per_generation: float
    added_ms: float
    """To add a generation to the history, on average."""
    start_seconds: float
    list_seconds: float
    """For `run.generations`."""
    lookup_seconds: float
    """For the first look at a query that was removed."""


def run(changes: int, recorded: int, out: Path) -> None:
    rows = []
    for arm, count, live in (("coordinator", changes, _live), ("log", recorded, _record)):
        with TemporaryDirectory(prefix="clash-generations-", ignore_cleanup_errors=True) as folder:
            note(f"{arm}: {count:,} generations …")
            engine = InProcessEngine(STREAMS, QUERIES, uri=folder)
            engine.batch(_tables(0))
            seconds = live(engine, count)
            engine.coordinator.close()
            rows.append(_measure(arm, engine, Path(folder), seconds))
            note(str(rows[-1]))
    write(out / "generations.csv", LongLife, rows)


def added_query(number: int, random: Random) -> QueryRequest:
    text = f"SELECT R.a, T.d, S.y + {random.randrange(1000)} AS v {JOIN} WHERE R.x > {random.randrange(10**6)}"
    return QueryRequest(f"query_{number}", text)


def _live(engine: InProcessEngine, count: int) -> float:
    random, seconds, compact = Random(1), 0.0, engine.coordinator._compact_generations

    def timed() -> list[str]:
        nonlocal seconds
        begin = time.perf_counter()
        obsolete = compact()
        seconds += time.perf_counter() - begin
        return obsolete

    engine.coordinator._compact_generations = timed  # type: ignore[method-assign]
    for number in range(1, count):
        if number % 2:
            engine.coordinator.changes.add_query(added_query(number, random), True)
        else:
            engine.remove_query(f"query_{number - 1}")
        engine.batch(_tables(number))
    return seconds


def _record(engine: InProcessEngine, count: int) -> float:
    """Records the generations, and a manifest of the last of them."""
    coordinator, random, seconds = engine.coordinator, Random(1), 0.0
    first, log = coordinator.generation, coordinator.log
    for number in range(1, count):
        queries, reason = first.setup.queries, f"query query_{number - 1} removed"
        if number % 2:
            added = replace(first.setup.parse(added_query(number, random)), batch=number, arrival=number << 31)
            queries, reason = (*queries, added), f"query {added.name} added"
        plan = replace(first.plan, cost=random.random() * 1e6)
        setup = replace(first.setup, queries=queries)
        log.write(replace(first, number=number, batch=number, setup=setup, reason=reason, plan=plan))
        cost = GenerationCost().plus(random.randrange(1000, 2000), random.random())
        begin = time.perf_counter()
        coordinator.storage.delete(log.compact(number, {number - 1: cost}, {0}))
        seconds += time.perf_counter() - begin
    write_manifest(coordinator.storage, replace(coordinator.manifest, batch=count - 1, generation=count - 1, costs={}))
    return seconds


def _measure(arm: str, engine: InProcessEngine, folder: Path, added_seconds: float) -> LongLife:
    files = [path for path in (folder / "generations").rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    start, _ = _timed(engine.restart)
    listing, generations = _timed(lambda: engine.generations)
    lookup, former = _timed(lambda: engine.coordinator.query("query_1"))
    if former is None or former.name != "query_1" or [g["generation"] for g in generations] != [*range(len(generations))]:
        raise AssertionError("the history is not complete")
    count = len(generations)
    return LongLife(arm, count, len(files), size / 1e6, size / count, added_seconds / count * 1e3, start, listing, lookup)


def _timed(action: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = action()
    return time.perf_counter() - begin, result


def _tables(batch: int) -> dict[str, pa.Table]:
    values = {column: pa.array([batch % 3] * 2, pa.int64()) for columns in COLUMNS.values() for column in columns}
    times = pa.array([batch * 1_000_000] * 2, pa.timestamp("us", "UTC"))
    return {name: pa.table({**{column: values[column] for column in columns}, "ts": times}) for name, columns in COLUMNS.items()}
