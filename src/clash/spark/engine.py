"""`clash.Engine`: streams and queries in, a run out. All that a user can get wrong is refused here, before Spark starts anything."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pyspark.sql import DataFrame, SparkSession

from clash.coordinator.coordinator import Driver
from clash.coordinator.control.job import Asked, Job, refuse_taken
from clash.errors import CheckpointError, ClashError, OptionError
from clash.model.durations import parse_duration
from clash.model.statistics import Statistics
from clash.model.stream import Keep, Stream
from clash.planner.cost_model import CostName, LayoutRule
from clash.planner.optimize import MOST_WORKERS
from clash.planner.search_space import StrategyName
from clash.sinks import Sink
from clash.spark.declarations import declare_query, declare_stream, say
from clash.spark.failures import explained
from clash.spark.query_launcher import Launcher
from clash.spark.run import Run
from clash.spark.package_shipping import ship
from clash.sql import parse_query
from clash.sql.name_lookup import listed
from clash.state.checkpoint_lock import Alone
from clash.state.storage import open_storage

_LOG = logging.getLogger("clash")


class Engine:
    """Declares streams and queries; `start` runs them.

    `checkpoint` is a folder that all executors see: state, results without a sink, and where the sources were read up to. The same
    program started again over the same folder goes on where it was. `epoch` is a duration or a number of micro-batches.
    """

    def __init__(
        self,
        spark: Any,
        checkpoint: str | os.PathLike[str],
        *,
        epoch: str | int = "1 second",
        workers: int = 4,
        strategy: StrategyName = "global",
        adaptive: bool = True,
        cost: CostName = "full",
        layouts: LayoutRule = "one",
        mirs: bool = True,
        statistics: Statistics | None = None,
    ) -> None:
        if not isinstance(spark, SparkSession) or not hasattr(spark, "_jsparkSession"):
            hint = 'write clash.configure(SparkSession.builder.master("local[2]")).getOrCreate(); Spark Connect is not supported'
            raise OptionError("spark is not a session of classic Spark", type(spark).__name__, hint)
        if not isinstance(checkpoint, str | os.PathLike) or not str(checkpoint).strip() or str(checkpoint).startswith("memory:"):
            raise OptionError("the checkpoint is not a folder", repr(checkpoint), 'write checkpoint="/data/checkpoints/orders"')
        _check(workers, epoch, adaptive, mirs, statistics, strategy=strategy, cost=cost, layouts=layouts)
        if spark.conf.get("spark.sql.ansi.enabled", "true") == "false":
            _LOG.warning("spark.sql.ansi.enabled is off, but queries here follow ANSI rules: an overflow is an error, not NULL")
        self._spark, self._checkpoint = spark, _absolute(checkpoint)
        self._epoch, self._adaptive = epoch, adaptive
        self._workers, self._strategy, self._cost, self._layouts, self._mirs = workers, strategy, cost, layouts, mirs
        self._statistics = statistics
        self._streams: dict[str, Stream] = {}
        self._frames: dict[str, DataFrame] = {}
        self._asked: dict[str, Asked] = {}
        self._sinks: dict[str, Sink | None] = {}
        self._run: Run | None = None

    # ---- declaring ---------------------------------------------------------------------------------------------

    def stream(
        self,
        name: str,
        df: Any,
        time: str | None = None,
        window: str | None = None,
        lateness: str | None = None,
        idle: str | None = None,
        keep: Keep = "needed",
    ) -> None:
        """A stream: any streaming DataFrame. Without `time` a row's time is that of its batch, without `window` it is kept for ever."""
        self._refuse_running("a stream")
        stream = declare_stream(name, df, time, window, lateness, idle, keep)
        refuse_taken(name, self._streams)
        say(stream, df)
        self._streams[name], self._frames[name] = stream, df

    def query(self, name: str, text: str, sink: Sink | None = None, windows: Mapping[str, str] | None = None) -> None:
        """A query over the streams declared so far. Without a sink its results are kept under the checkpoint."""
        self._refuse_running("a query")
        asked = declare_query(name, text, sink, windows)
        if not self._streams:
            raise OptionError("there are no streams yet", f"query {name}", 'declare them first: engine.stream("R", df)')
        parse_query(name, text, self._streams, windows)
        if name in self._asked:
            raise OptionError("there is a query of that name already", repr(name), "give the new one another name")
        folder = asked.sink.folder
        other = next((q.name for q in self._asked.values() if folder is not None and q.sink.folder == folder), None)
        if other is not None:
            raise OptionError("two queries write to one folder", f"{other} and {name}: {folder}", "give each a folder of its own")
        self._asked[name], self._sinks[name] = asked, sink

    # ---- running -----------------------------------------------------------------------------------------------

    def start(self, available_now: bool = False, trigger: str | None = None) -> Run:
        """Runs until stopped: as fast as it can, once per `trigger`, or, with `available_now`, until what is there now is read."""
        self._refuse_running("another run")
        if not isinstance(available_now, bool):
            raise OptionError("available_now is neither True nor False", repr(available_now), "write available_now=True")
        if available_now and trigger is not None:
            raise OptionError("available_now and trigger exclude each other", f"trigger={trigger!r}", "write one of them")
        every = None if trigger is None else f"{parse_duration(trigger, 'the trigger') // 1000} milliseconds"
        job = Job(
            tuple(self._streams.values()), tuple(self._asked.values()), self._workers, self._strategy, self._cost, self._layouts,
            self._mirs, self._statistics, self._epoch, self._adaptive,
        )  # fmt: skip
        uri = f"{self._checkpoint}/clash"
        alone = Alone(open_storage(uri))
        try:
            driver = Driver(uri, job, str(self._spark.conf.get("spark.sql.session.timeZone")))
            self._refuse_half(driver)
            ship(self._spark.sparkContext)
            launcher = Launcher(self._checkpoint, self._frames, available_now, every)
            self._run = Run(self._spark, driver, launcher, self._sinks, self._declare, alone.release)
        except BaseException as error:
            alone.release()
            if isinstance(error, Exception) and not isinstance(error, ClashError):
                raise explained(error) from error
            raise
        return self._run

    def _refuse_running(self, what: str) -> None:
        if self._run is not None and self._run.is_active:
            raise OptionError(
                "the engine runs already", f"{what} cannot be declared", "ask the run: run.add_query, run.stream; or call run.stop() first"
            )

    def _declare(self, stream: Stream, df: Any) -> None:
        self._streams[stream.name], self._frames[stream.name] = stream, df

    def _refuse_half(self, driver: Driver) -> None:
        """Without its own part Spark would begin with batch 0 again, over whatever the sources have now."""
        folder = f"{self._checkpoint}/spark"
        if driver.last >= 0 and not open_storage(folder).exists("metadata"):
            raise CheckpointError(
                "the two halves of the checkpoint do not fit together",
                f"{folder} is empty, our last batch is {driver.last}",
                "restore both from one copy, or start with an empty checkpoint folder",
            )
        missing = [name for name in driver.reading if name not in self._frames]
        if missing:
            raise CheckpointError(
                "a stream of the checkpoint is missing",
                f"{listed(missing)}: Spark knows its sources by their number",
                f'declare it as it was, with engine.stream("{missing[0]}", df, …), also if no query reads it any more',
            )


def _check(
    workers: object, epoch: object, adaptive: object, mirs: object, statistics: object, *, strategy: object, cost: object, layouts: object
) -> None:
    """Every option outside its range is named, with what may stand there."""
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= MOST_WORKERS:
        raise OptionError("the number of workers is out of range", repr(workers), f"write a whole number from 1 to {MOST_WORKERS:,}")
    if isinstance(epoch, str):
        parse_duration(epoch, "the epoch")
    elif isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 1:
        raise OptionError("the epoch is out of range", repr(epoch), 'write a duration such as "1 second", or a number of micro-batches')
    for name, value, allowed in (("strategy", strategy, StrategyName), ("cost model", cost, CostName), ("layouts", layouts, LayoutRule)):
        if value not in get_args(allowed):
            raise OptionError(f"unknown {name}", repr(value), f"write one of {', '.join(get_args(allowed))}")
    for name, flag in (("adaptive", adaptive), ("mirs", mirs)):
        if not isinstance(flag, bool):
            raise OptionError(f"{name} is neither True nor False", repr(flag), f"write {name}=False to do without")
    if statistics is not None and not isinstance(statistics, Statistics):
        raise OptionError("statistics are not a clash.Statistics", type(statistics).__name__, 'write clash.Statistics(rates={"R": 100})')


def _absolute(folder: str | os.PathLike[str]) -> str:
    text = os.fspath(folder)
    return (text if ":/" in text else str(Path(text).expanduser().absolute())).rstrip("/")
