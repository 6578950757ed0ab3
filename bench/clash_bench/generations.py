"""What a long life with many changes leaves in `generations/`, and how long a start and `run.generations` take then.

Two arms: a coordinator in process whose every batch begins a generation, and a history with as many generations as a change per second
gives in a day, which are only recorded. Every other change adds a query of a new name, the next one removes it.
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
from clash.coordinator.checkpoint.generation_outline import EndedGeneration, MeasuredCost, outline_of
from clash.coordinator.checkpoint.manifest import write_manifest
from clash.coordinator.control.job import QueryRequest
from clash.coordinator.control.setup import LiveQuery
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash_bench.monitor import load
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
    added_ms: float | None
    """To add a generation to the history, on average."""
    start_seconds: float
    list_seconds: float
    """For `run.generations`."""
    list_cpu: float
    """CPU seconds of that: other programs make it take longer."""
    lookup_seconds: float
    """For the first look at a query that was removed."""
    load: float


def run(changes: int, recorded: int, out: Path) -> None:
    rows = []
    for arm, count, live in (("coordinator", changes, _live), ("recorded", recorded, _record)):
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


def _record(engine: InProcessEngine, count: int) -> None:
    """Records the generations as if each had ended, then the last one and a manifest of it."""
    coordinator, random = engine.coordinator, Random(1)
    first, history = coordinator.generation, coordinator.log.history
    names = list(first.setup.query_names)
    texts = [first.setup.parse(added_query(number, random)) for number in range(200)]  # parsing takes longer than all the rest
    for begin in range(0, count - 1, 64):
        generations, queries = [], []
        for number in range(begin, min(begin + 64, count - 1)):
            reason, live = ("start" if number == 0 else f"query query_{number - 1} removed"), names
            if number % 2:
                live, reason = [*names, f"query_{number}"], f"query query_{number} added"
                queries.append((number, _renamed(random.choice(texts), f"query_{number}", number)))
            cost = GenerationCost().plus(random.randrange(1000, 2000), random.random())
            outline = replace(outline_of(first), generation=number, batch=number, reason=reason, queries=live, cost=random.random() * 1e6)
            generations.append(EndedGeneration(outline, MeasuredCost.of(cost)))
        history.append(generations, queries)
    coordinator.log.write(replace(first, number=count - 1, batch=count - 1))
    write_manifest(coordinator.storage, replace(coordinator.manifest, batch=count - 1, generation=count - 1, costs={}))


def _renamed(live: LiveQuery, name: str, batch: int) -> LiveQuery:
    request, query = replace(live.request, name=name), replace(live.query, name=name)
    return replace(live, request=request, query=query, batch=batch, arrival=batch << 31)


def _measure(arm: str, engine: InProcessEngine, folder: Path, added_seconds: float | None) -> LongLife:
    files = [path for path in (folder / "generations").rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    start, _ = _timed(engine.restart)
    cpu = time.process_time()
    listing, generations = _timed(lambda: engine.generations)
    cpu = time.process_time() - cpu
    lookup, former = _timed(lambda: engine.coordinator.query("query_1"))
    if former is None or former.name != "query_1" or [g["generation"] for g in generations] != [*range(len(generations))]:
        raise AssertionError("the history is not complete")
    count = len(generations)
    added_ms = None if added_seconds is None else added_seconds / count * 1e3
    return LongLife(arm, count, len(files), size / 1e6, size / count, added_ms, start, listing, cpu, lookup, load())


def _timed(action: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = action()
    return time.perf_counter() - begin, result


def _tables(batch: int) -> dict[str, pa.Table]:
    values = {column: pa.array([batch % 3] * 2, pa.int64()) for columns in COLUMNS.values() for column in columns}
    times = pa.array([batch * 1_000_000] * 2, pa.timestamp("us", "UTC"))
    return {name: pa.table({**{column: values[column] for column in columns}, "ts": times}) for name, columns in COLUMNS.items()}
