"""The program of a history on Spark, in a process of its own that can be killed, as tests/recovery/job.py: one JSON line in is one start of
the engine, one line out its end. In: `start`, a file with a pickled `Start`."""

from __future__ import annotations

import json
import logging
import pickle
import sys
import time
import traceback
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.chaos.requests import RequestingCoordinator, sink_folder
from tests.chaos.starts import Start, parts
from tests.oracle.case import Case, Change
from tests.oracle.starts import quick_planner
from tests.recovery import job
from tests.task_choice import alternate

import clash
from clash.model.durations import show_duration
from clash.model.stream import Stream
from clash.spark import batch_function
from clash.spark import engine as engine_module


def main(master: str) -> None:
    logging.getLogger("clash").setLevel(logging.ERROR)
    spark = session(master)
    job.tell({"ready": True})
    for line in sys.stdin:
        start: Start = pickle.loads(Path(json.loads(line)["start"]).read_bytes())
        job.environment(spark, {"fail": start.fail, "flag": start.flag})
        with quick_planner():
            job.tell(play(spark, start))
    spark.stop()


def session(master: str) -> Any:
    from pyspark.sql import SparkSession

    alternate()
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
    builder.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false")
    builder.config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")  # it lives for seconds
    if not master.startswith("local"):
        builder.config("spark.executor.memory", "512m").config("spark.executor.cores", "1").config("spark.cores.max", "2")
        builder.config("spark.driver.host", "127.0.0.1").config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1")
    return clash.configure(builder).getOrCreate()


def play(spark: Any, start: Start) -> dict[str, Any]:
    spark.conf.set("spark.sql.session.timeZone", start.case.setting.timezone)
    moved = SimpleNamespace(time_ns=lambda: time.time_ns() + start.clock * 10**9, perf_counter=time.perf_counter)
    batch_function.time = moved  # type: ignore[assignment]
    requests = Requests(spark, start)
    engine_module.Coordinator = partial(RequestingCoordinator, start.case, requests)  # type: ignore[misc,assignment]
    phase = "start"
    try:
        run = requests.engine().start(available_now=True)
        phase = "batch"
        requests.begin(run)
        run.await_termination()
    except clash.ClashError as error:
        return {"error": parts(error), "phase": phase}
    except Exception:
        return {"raw": traceback.format_exc(), "phase": phase}
    return {"last": run._coordinator.last}


class Requests:
    """Requests the changes of a batch of the run, once."""

    def __init__(self, spark: Any, start: Start) -> None:
        self.spark, self.start = spark, start
        self._run: Any = None
        self._begun, self._done = Event(), set[int]()

    @property
    def case(self) -> Case:
        return self.start.case

    def begin(self, run: Any) -> None:
        self._run = run
        self._begun.set()

    def __call__(self, coordinator: Any, batch: int) -> None:
        self._begun.wait()  # the first batch may come before `start` returns
        if batch not in self._done and batch < len(self.case.batches):
            for change in self.case.batches[batch].changes:
                self._change(coordinator, change)
        self._done.add(batch)

    def _change(self, coordinator: Any, change: Change) -> None:
        if change.kind == "stream":
            if change.name not in coordinator.changes.setup.streams_by_name:
                with self.start.declarations.open("a") as file:
                    file.write(f"{change.name}\n")
                stream = self.case.by_name[change.name]
                self._run.stream(stream.name, self.frame(stream), **_options(stream))
        elif change.kind == "rescale":
            self._run.rescale(change.workers)
        elif change.ask is None:
            self._run.remove_query(change.name)
        else:
            ask = change.ask
            self._run.add_query(ask.name, ask.text, self._sink(ask.name), change.history, dict(ask.windows))

    def _sink(self, query: str) -> Any:
        folder = sink_folder(self.start.base, query)
        return None if folder is None else clash.sinks.Parquet(folder)

    def frame(self, stream: Stream) -> Any:
        schema = ", ".join(f"{name} {kind}" for name, kind in stream.columns)
        source = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        df = source.parquet(str(self.start.base.parent / "in" / stream.name))
        return df.where("true") if self.start.seed % 2 else df  # no plain files any more: Spark reads them, not the tasks

    def engine(self) -> Any:
        setting = self.case.setting
        made = clash.Engine(
            self.spark, self.start.base / self.start.checkpoint, epoch=1, workers=setting.workers, strategy=setting.strategy,
            adaptive=False, cost=setting.cost, layouts=setting.layouts, mirs=setting.mirs, statistics=setting.statistics,
        )  # fmt: skip
        first = {stream.name for stream in self.case.first_streams}
        for stream in self.case.streams:
            if stream.name in first or stream.name in self.start.declared:
                made.stream(stream.name, self.frame(stream), **_options(stream))
        for ask in self.case.queries:
            made.query(ask.name, ask.text, self._sink(ask.name), dict(ask.windows))
        return made


def _options(stream: Stream) -> dict[str, Any]:
    window, lateness = (None if duration is None else show_duration(duration) for duration in (stream.window, stream.lateness))
    return {"time": stream.time, "window": window, "lateness": lateness, "keep": stream.keep}


if __name__ == "__main__":
    main(sys.argv[1])
