"""A small job that runs in process over a checkpoint on disk: results under the checkpoint and in a folder of their own, late rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pyarrow as pa

from clash.coordinator.control.job import JobSpec, QueryRequest, SinkSpec
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream

COLUMNS = {"a": "bigint", "b": "bigint", "ts": "timestamp"}
STREAMS = tuple(Stream.of(name, COLUMNS, time="ts", window="9 s", lateness="1 s") for name in "RS")
INNER = "SELECT R.a, S.b, R.b AS c FROM R JOIN S ON R.a = S.a"  # kept under the checkpoint
OUTER = "SELECT R.a, S.b, R.b AS c FROM R JOIN S ON R.b = S.b"  # in a folder of its own
QUERIES = ("inner", "outer")


def tables(batch: int) -> dict[str, pa.Table]:
    """A few rows per stream; from batch 2 on, some are late."""
    rng = Random(batch)

    def rows() -> pa.Table:
        seconds = [100 + batch - (50 if rng.random() < 0.2 and batch > 1 else 0) for _ in range(6)]
        times = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", "UTC"))
        return pa.table({"a": rng.choices(range(3), k=6), "b": rng.choices(range(4), k=6), "ts": times})

    return {name: rows() for name in "RS"}


def program(out: Path) -> JobSpec:
    queries = (QueryRequest("inner", INNER), QueryRequest("outer", OUTER, (), SinkSpec("parquet", str(out))))
    return JobSpec(STREAMS, queries, workers=2, epoch=1, adaptive=False)


def start(checkpoint: Path, out: Path, job: JobSpec | None = None) -> InProcessEngine:
    """The program, over a checkpoint that is new or continues."""
    engine = InProcessEngine(STREAMS, {"unused": INNER}, tuning={"relayout_rows": 8})
    engine.uri, engine.job = str(checkpoint / "clash"), job or program(out)
    engine.coordinator = engine._new_coordinator()
    return engine


def run(engine: InProcessEngine, until: int) -> InProcessEngine:
    """All batches up to one, from wherever the engine is: what is committed and not published is published first, as Spark has it."""
    if engine.coordinator.last >= 0:
        engine.coordinator.publish(engine.coordinator.last)
    for batch in range(engine.coordinator.last + 1, until + 1):
        engine.batch(tables(batch))
    return engine


def contents(engine: InProcessEngine) -> dict[str, list[tuple[object, ...]]]:
    """All results and late rows, each in one order."""
    found = {name: engine.results(name) for name in QUERIES} | {f"late {name}": engine.late(name) for name in "RS"}
    return {name: sorted(zip(*table.to_pydict().values(), strict=True)) for name, table in found.items()}


def expected(folder: Path, until: int) -> dict[str, list[tuple[object, ...]]]:
    """What a run that nothing happens to has after a batch."""
    shutil.rmtree(folder, ignore_errors=True)
    return contents(run(start(folder / "c", folder / "out"), until))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
