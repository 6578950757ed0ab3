"""A small job that runs in process over a checkpoint on disk: results under the checkpoint and in a folder of their own, late rows.

Spark's half of the checkpoint is written as Spark would, without a seal.
"""

from __future__ import annotations

import contextlib
import shutil
import time
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
    last, half = engine.coordinator.last, Path(engine.uri).parent / "spark"
    if last >= 0 and not (half / f"commits/{last}").exists():
        engine.coordinator.publish(last)
        commit_batch(half, last)
    for batch in range(last + 1, until + 1):
        plan_batch(half, batch)
        engine.batch(tables(batch))
        commit_batch(half, batch)
    return engine


def plan_batch(half: Path, batch: int) -> None:
    """What Spark writes before a batch."""
    write(half / "metadata", '{"id":"0"}')
    write(half / f"sources/0/{batch}", f'v1\n{{"path":"file:///in/{batch}.parquet"}}')
    write(half / f"offsets/{batch}", f'v1\n{{}}\n{{"logOffset":{batch}}}')


def commit_batch(half: Path, batch: int) -> None:
    """What Spark writes, and removes, after a batch."""
    write(half / f"commits/{batch}", "v1\n{}")
    for log in ("offsets", "commits"):
        (half / log / str(batch - 5)).unlink(missing_ok=True)


def write(path: Path, text: str) -> None:
    """A file that appears as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name(f".{path.name}.tmp").write_text(text)
    path.with_name(f".{path.name}.tmp").rename(path)


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


def copy_slowly(source: Path, target: Path, rng: Random, pause: float) -> None:
    """As `cp -r` does with much data, while a job goes on: folders are listed when it comes to them, and files vanish meanwhile. `pause`:
    at most so many seconds between two files."""
    target.mkdir()
    entries = sorted(source.iterdir())
    rng.shuffle(entries)
    for entry in entries:
        time.sleep(rng.random() * pause)
        with contextlib.suppress(FileNotFoundError):
            if entry.is_dir():
                copy_slowly(entry, target / entry.name, rng, pause)
            else:
                shutil.copyfile(entry, target / entry.name)
