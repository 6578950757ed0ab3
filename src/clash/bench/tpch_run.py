"""One measured run of the engine over TPC-H files on local Spark, and what it gave.

The clock runs from `engine.start` to the end of the last batch: planning, Spark's own start of the query and all commits are in it. What
is warm, and why, is said by the caller: the JVM and the Python workers are those of the session.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clash.bench.content import Content, file_content
from clash.bench.monitor import Memory, Monitor, load
from clash.bench.tpch_data import Data
from clash.bench.tpch_queries import TABLES, tpch_streams
from clash.errors import ClashError
from clash.model.statistics import Statistics
from clash.planner.search_space import StrategyName

CORES = 2
HEAP = "3g"
PARTS = ("source", "ingest", "shuffle", "route", "store", "probe", "sink")  # what tasks report of their seconds


@dataclass(frozen=True)
class Job:
    """What is run: queries, what the planner knows, and how it is spread."""

    queries: Mapping[str, str]
    statistics: Statistics
    strategy: StrategyName = "global"
    workers: int = 2


@dataclass(frozen=True)
class Ran:
    """`progress` is what the run told of each batch; memory and CPU are by kind of process."""

    seconds: float
    progress: Sequence[Mapping[str, Any]]
    cpu: Mapping[str, float]
    peak: Mapping[str, Memory]
    load: float
    contents: Mapping[str, Content] = field(default_factory=dict)

    @property
    def tuples(self) -> int:
        return sum(sum(entry["input"].values()) for entry in self.progress)

    @property
    def triggers(self) -> list[int]:
        """Milliseconds per batch from trigger to commit, as Spark has them."""
        return [entry["durationMs"].get("triggerExecution", 0) for entry in self.progress]

    def state(self, what: str) -> int:
        """Rows, bytes or containers of all stores after the last batch."""
        return sum(store[what] for store in self.progress[-1]["stores"].values())

    def part(self, name: str) -> float:
        """Seconds of one kind of work, summed over tasks and batches."""
        return float(sum(entry["seconds"].get(name, 0.0) for entry in self.progress))

    @property
    def own(self) -> float:
        """Seconds between triggers and commits in which the cores ran none of our code, as if they were always both wanted."""
        return sum(self.triggers) / 1000 - sum(self.part(name) for name in PARTS if name != "source") / CORES


@contextmanager
def session() -> Iterator[Any]:
    from clash.spark.local_session import local_session

    with (
        TemporaryDirectory(prefix="clash-log-") as folder,
        local_session("clash bench tpch", CORES, Path(folder) / "spark.log", {"spark.driver.memory": HEAP}) as spark,
    ):
        yield spark


def run_once(spark: Any, data: Data, job: Job, check: bool = True) -> Ran:
    """Reads a file per stream and batch. Everything written is removed again, after its content was taken down."""
    with TemporaryDirectory(prefix="clash-tpch-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        engine = _engine(spark, data, job, folder)
        busy = load()
        with Monitor() as monitor:
            started = time.perf_counter()
            run = engine.start(available_now=True)
            run.await_termination()
            seconds = time.perf_counter() - started
        progress = run.recent_progress
        wanted = max(len(data.files(stream.name)) for stream in tpch_streams(job.queries))
        if len(progress) != wanted:
            raise ClashError("not all batches were run", f"{len(progress)} of {wanted}", "run the benchmark again")
        contents = {name: file_content(f"{folder}/{name}/*.parquet") for name in job.queries} if check else {}
        return Ran(seconds, progress, monitor.cpu, monitor.peak, busy, contents)


def _engine(spark: Any, data: Data, job: Job, folder: Path) -> Any:
    import clash
    from clash import sinks

    engine = clash.Engine(
        spark,
        checkpoint=folder / "checkpoint",
        workers=job.workers,
        strategy=job.strategy,
        adaptive=False,
        statistics=job.statistics,
    )
    for stream in tpch_streams(job.queries):
        schema = ", ".join(f"{column} {kind}" for column, kind in TABLES[stream.name].items())
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        engine.stream(stream.name, reader.parquet(str((data.folder / stream.name).absolute())))
    for name, text in job.queries.items():
        engine.query(name, text, sink=sinks.Parquet(folder / name))
    return engine
