"""A random history in a process of its own that can be killed, as in job.py: its changes are requested right before the batch is decided
that they are to take effect with, and every batch has a random plan.

In: seed (see fitted.py), checkpoint, out, fail, flag. Out: the last batch, the error, and per generation its batch, its workers and how
many intermediate results it stores. At the end what can be read of each query and of late rows is under `out`.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.oracle.case import Ask, Case, Change
from tests.oracle.starts import plan_for, plan_of
from tests.recovery import fitted, job

import clash
from clash.coordinator.checkpoint.spark_seal import SparkSeal
from clash.coordinator.control.setup import Setup
from clash.coordinator.coordinator import Coordinator
from clash.model.durations import show_duration
from clash.plan.logical import LogicalPlan
from clash.protocol.batch import BatchSpec, Tuning
from clash.spark import engine as sparks

RESULTS, LATE, HANDED, FILES, MIRS = "results", "late", "handed", "files", "mirs"


def main(master: str, data: Path) -> None:
    logging.getLogger("clash").setLevel(logging.WARNING)
    spark = job.session(master)
    job.tell({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        job.environment(spark, asked)
        began = time.perf_counter()
        job.tell({**play(spark, data, asked), "seconds": round(time.perf_counter() - began, 1)})
    spark.stop()


def play(spark: Any, data: Path, asked: dict[str, Any]) -> dict[str, Any]:
    case, out = fitted.history(asked["seed"]), Path(asked["out"])
    spark.conf.set("spark.sql.session.timeZone", case.setting.timezone)
    asking = Asking(case, out)
    sparks.Coordinator = partial(Changing, case, asking)  # type: ignore[misc,assignment]
    try:
        run = engine(spark, data, asked, asking).start(available_now=True)
        asking.begin(run)
        run.await_termination()
    except clash.ClashError as error:
        return {"batch": None, "error": str(error)}
    keep(run, case, out)
    generations = [[outline["batch"], outline["workers"]] for outline in run.generations]
    return {"batch": run.progress["batch"], "error": None, "generations": generations, "mirs": (out / MIRS).exists()}


class Changing(Coordinator):
    """Asks before it decides, as late as a user can; a batch that is on record has been asked for already."""

    def __init__(self, case: Case, ask: Asking, uri: str, job: Any, timezone: str, check: Any, fence: Any, read_table: Any) -> None:
        self._case, self._ask_for = case, ask
        plan = None if case.setting.plan_seed is None else plan_of(case)
        super().__init__(uri, job, timezone, plan, Tuning(**dict(case.setting.options)), check, fence, read_table)
        self.plan_override = self._random_plan

    def begin(self, batch: int, now: int, partitions: int, seal: SparkSeal | None = None) -> BatchSpec | None:
        if batch > self.last and not self.storage.exists(f"batches/{batch:09d}.json"):
            self._ask_for(batch)
        spec = super().begin(batch, now, partitions, seal)
        if any(store.join is not None for store in self.active.topology.stores):
            self._ask_for.out.mkdir(parents=True, exist_ok=True)
            (self._ask_for.out / MIRS).touch()
        return spec

    def _random_plan(self, setup: Setup, batch: int) -> LogicalPlan | None:
        seed = self._case.batches[batch].plan_seed
        asks = {q.name: Ask(q.name, q.request.text, q.request.windows) for q in setup.queries}
        return None if seed is None else plan_for(self._case, asks, setup.streams, setup.workers, seed, 0.0)


class Asking:
    """Asks the run for the changes of a batch, once. Results go to a function, to Parquet files or stay under the checkpoint."""

    def __init__(self, case: Case, out: Path) -> None:
        self.case, self.out, self._handed = case, out, fitted.handed(case)
        self._run: Any = None
        self._begun, self._done = Event(), set[int]()

    def begin(self, run: Any) -> None:
        self._run = run
        self._begun.set()

    def __call__(self, batch: int) -> None:
        self._begun.wait()  # the first batch may come before `start` returns
        if batch not in self._done:
            for change in self.case.batches[batch].changes:
                self._ask(change)
        self._done.add(batch)

    def _ask(self, change: Change) -> None:
        if change.ask is not None:
            ask = change.ask
            self._run.add_query(ask.name, ask.text, self.sink(ask.name), change.history, dict(ask.windows))
        elif change.kind == "remove":
            self._run.remove_query(change.name)
        else:
            self._run.rescale(change.workers)

    def sink(self, name: str) -> Any:
        if name == self._handed:
            return clash.sinks.ForeachBatch(self._take)
        return clash.sinks.Parquet(self.out / FILES / name) if sum(name.encode()) % 2 else None

    def _take(self, df: Any, batch: int) -> None:
        _write(df, self.out / HANDED / f"{batch:09d}-{time.time_ns()}.parquet")


def engine(spark: Any, data: Path, asked: dict[str, Any], asking: Asking) -> Any:
    case, setting = asking.case, asking.case.setting
    made = clash.Engine(
        spark, asked["checkpoint"], epoch=1, workers=setting.workers, strategy=setting.strategy, adaptive=False, cost=setting.cost,
        layouts=setting.layouts, mirs=setting.mirs, statistics=setting.statistics,
    )  # fmt: skip
    for stream in case.streams:
        schema = ", ".join(f"{name} {kind}" for name, kind in stream.columns)
        df = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(data / str(asked["seed"]) / stream.name))
        if asked["seed"] % 2:
            df = df.where("true")  # no plain files any more: Spark reads them, not the tasks
        window, lateness = (None if d is None else show_duration(d) for d in (stream.window, stream.lateness))
        made.stream(stream.name, df, time=stream.time, window=window, lateness=lateness, keep=stream.keep)
    for ask in case.queries:
        made.query(ask.name, ask.text, asking.sink(ask.name), dict(ask.windows))
    return made


def keep(run: Any, case: Case, out: Path) -> None:
    """What a user can read at the end: of all queries that there ever were, and of the rows that came too late."""
    for life in fitted.lives(case):
        if life.ask.name != fitted.handed(case):  # the function has them
            _write(run.results(life.ask.name), out / RESULTS / f"{life.ask.name}.parquet")
    for stream in case.streams:
        _write(run.late(stream.name), out / LATE / f"{stream.name}.parquet")


def _write(df: Any, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(df.toArrow(), file)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
