"""One measured run of the engine over TPC-H files on local Spark.

The time is measured from `engine.start` to the end of the last batch: it includes planning, Spark's own start of the query and all commits.
The JVM and the Python workers are those of the session, which the caller warms up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clash.cli.row_content import Content, file_content
from clash.errors import ClashError
from clash.model.statistics import Statistics
from clash.plan.options import StrategyName
from clash_bench.monitor import Memory, Monitor, load
from clash_bench.tpch_data import Data
from clash_bench.tpch_queries import tpch_streams
from clash_bench.tpch_sources import stream_frames

CORES = 2
HEAP = "3g"
PARTS = ("source", "ingest", "shuffle", "route", "store", "probe", "sink")  # the kinds of work that tasks report seconds of


@dataclass(frozen=True)
class Job:
    """What is run: the queries, the statistics for the planner, the strategy and the number of workers."""

    queries: Mapping[str, str]
    statistics: Statistics
    strategy: StrategyName = "global"
    workers: int = 2
    one_source: Path | None = None
    """The folder of the one source of all streams; None if each stream has a source of its own."""


@dataclass(frozen=True)
class RunResult:
    """What was measured of a run."""

    seconds: float
    progress: Sequence[Mapping[str, Any]]
    """What the run reported of each batch."""
    cpu: Mapping[str, float]
    """CPU seconds by kind of process."""
    peak: Mapping[str, Memory]
    """Peak memory by kind of process."""
    load: float
    """The load of the machine before the run."""
    contents: Mapping[str, Content] = field(default_factory=dict)
    """The results by query; empty where they are not checked."""

    @property
    def tuples(self) -> int:
        return sum(sum(entry["input"].values()) for entry in self.progress)

    @property
    def triggers(self) -> list[int]:
        """Milliseconds per batch from trigger to commit, as Spark reports them."""
        return [entry["durationMs"].get("triggerExecution", 0) for entry in self.progress]

    def state(self, measure: str) -> int:
        """`rows`, `bytes` or `containers` of all stores after the last batch."""
        return sum(store[measure] for store in self.progress[-1]["stores"].values())

    def part(self, name: str) -> float:
        """Seconds of one kind of work, summed over tasks and batches."""
        return float(sum(entry["seconds"].get(name, 0.0) for entry in self.progress))

    @property
    def spark_seconds(self) -> float:
        """Seconds between triggers and commits that are not spent in our tasks, if these keep all cores busy."""
        return sum(self.triggers) / 1000 - sum(self.part(name) for name in PARTS if name != "source") / CORES


@contextmanager
def session() -> Iterator[Any]:
    """A local Spark session for a benchmark."""
    from clash.spark.local_session import local_session

    with (
        TemporaryDirectory(prefix="clash-log-") as folder,
        local_session("clash bench tpch", CORES, Path(folder) / "spark.log", {"spark.driver.memory": HEAP}) as spark,
    ):
        yield spark


def run_once(spark: Any, data: Data, job: Job, check: bool = True) -> RunResult:
    """Runs over one file per stream and batch. All output is removed afterwards; `check` keeps the content of the results."""
    with TemporaryDirectory(prefix="clash-tpch-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        engine = _engine(spark, data, job, folder)
        load_before = load()
        with Monitor() as monitor:
            started = time.perf_counter()
            run = engine.start(available_now=True)
            run.await_termination()
            seconds = time.perf_counter() - started
        progress = run.recent_progress
        expected = max(len(data.files(stream.name)) for stream in tpch_streams(job.queries))
        if len(progress) != expected:
            raise ClashError("not all batches were run", f"{len(progress)} of {expected}", "run the benchmark again")
        contents = {name: file_content(f"{folder}/{name}/*.parquet") for name in job.queries} if check else {}
        return RunResult(seconds, progress, monitor.cpu, monitor.peak, load_before, contents)


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
    for name, frame in stream_frames(spark, data, tpch_streams(job.queries), job.one_source).items():
        engine.stream(name, frame)
    for name, text in job.queries.items():
        engine.query(name, text, sink=sinks.Parquet(folder / name))
    return engine
