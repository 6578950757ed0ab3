"""`clash.Engine`: streams and queries in, a run out. All that a user can get wrong is refused here, before Spark starts anything."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pyspark.sql import DataFrame, SparkSession

from clash.driver.driver import Driver
from clash.driver.job import Asked, Job, SinkRecord
from clash.errors import CheckpointError, ClashError, OptionError
from clash.model.durations import parse_duration
from clash.model.statistics import Statistics
from clash.model.stream import Keep, Stream
from clash.planner.costs import CostName, LayoutRule
from clash.planner.optimize import MOST_WORKERS
from clash.planner.space import StrategyName
from clash.sinks import Console, ForeachBatch, Memory, Parquet, Sink
from clash.spark.failures import explained
from clash.spark.pack import arrange, pack
from clash.spark.run import Run
from clash.spark.ship import ship
from clash.sql import parse_query
from clash.state.storage import open_storage

_LOG = logging.getLogger("clash")
_WATERMARK = "spark.watermarkDelayMs"


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
        self.epoch, self.adaptive = epoch, adaptive
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
        if not isinstance(df, DataFrame):
            raise OptionError(f"stream {name} is not a DataFrame", type(df).__name__, "write spark.readStream.….load()")
        if not df.isStreaming:
            hint = "read it with spark.readStream; for data that does not change, a stream of its files"
            raise OptionError("the DataFrame is not a stream", f"stream {name}", hint)
        columns = [(field.name, field.dataType.simpleString()) for field in df.schema.fields]
        spelled = [column.lower() for column, _ in columns]
        twice = next((column for at, column in enumerate(spelled) if column in spelled[:at]), None)
        if twice is not None:
            raise OptionError("two columns of one name", f"{twice} in stream {name}", 'rename one with df.withColumnRenamed("old", "new")')
        stream = Stream.of(name, dict(columns), time=time, window=window, lateness=lateness, idle=idle, keep=keep)
        if name in self._streams:
            raise OptionError("there is a stream of that name already", repr(name), "give the new one another name")
        if idle is not None and lateness is None:
            raise OptionError("idle needs lateness", f"stream {name}", 'write lateness="0 seconds" if rows come in order')
        self._say(stream, df)
        self._streams[name], self._frames[name] = stream, df

    def query(self, name: str, text: str, sink: Sink | None = None, windows: Mapping[str, str] | None = None) -> None:
        """A query over the streams declared so far. Without a sink its results are kept under the checkpoint."""
        self._refuse_running("a query")
        if windows is not None and not isinstance(windows, Mapping):
            raise OptionError("windows are not a table", repr(windows), 'write windows={"R": "5 seconds"}')
        if sink is not None and not isinstance(sink, get_args(Sink)):
            raise OptionError(
                "not a sink", f"{sink!r} for query {name}", 'write clash.sinks.Parquet("out/q1"), Memory(), Console() or ForeachBatch(f)'
            )
        if not self._streams:
            raise OptionError("there are no streams yet", f"query {name}", 'declare them first: engine.stream("R", df)')
        parse_query(name, text, self._streams, windows)
        if name in self._asked:
            raise OptionError("there is a query of that name already", repr(name), "give the new one another name")
        record = _record(sink)
        other = next((q.name for q in self._asked.values() if record.path is not None and q.sink.path == record.path), None)
        if other is not None:
            raise OptionError("two queries write to one folder", f"{other} and {name}: {record.path}", "give each a folder of its own")
        self._asked[name] = Asked(name, text, tuple((windows or {}).items()), record)
        self._sinks[name] = sink

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
            self._mirs, self._statistics,
        )  # fmt: skip
        driver = Driver(f"{self._checkpoint}/clash", job, str(self._spark.conf.get("spark.sql.session.timeZone")))
        self._refuse_half(driver.last)
        read = frozenset(stream.name for stream in driver.topology.streams)
        kinds = {name: {f.name: f.dataType.simpleString() for f in df.schema.fields} for name, df in self._frames.items()}
        places = arrange(
            {name: [(c, kinds[name][c]) for c in driver.program.ingest_columns(name)] if name in read else [] for name in driver.reading}
        )
        ship(self._spark.sparkContext)
        packed = pack(self._frames, places, read)

        def launch(batch: Callable[[Any, int], None]) -> Any:
            writer = packed.writeStream.foreachBatch(batch).option("checkpointLocation", f"{self._checkpoint}/spark")
            if available_now:
                writer = writer.trigger(availableNow=True)
            elif every is not None:
                writer = writer.trigger(processingTime=every)
            return writer.start()

        try:
            self._run = Run(self._spark, driver, job, dict(self._sinks), places, launch)
        except ClashError:
            raise
        except Exception as error:
            raise explained(error) from error
        return self._run

    def _refuse_running(self, what: str) -> None:
        if self._run is not None and self._run.is_active:
            raise OptionError("the engine runs already", f"{what} cannot be added", "call run.stop() first")

    def _refuse_half(self, last: int) -> None:
        """Without its own part Spark would begin with batch 0 again, over whatever the sources have now."""
        folder = f"{self._checkpoint}/spark"
        if last >= 0 and not open_storage(folder).exists("metadata"):
            raise CheckpointError(
                "the two halves of the checkpoint do not fit together",
                f"{folder} is empty, our last batch is {last}",
                "restore both from one copy, or start with an empty checkpoint folder",
            )

    def _say(self, stream: Stream, df: Any) -> None:
        """What a user may not expect, once per stream."""
        if stream.lateness is None and stream.window is not None:
            _LOG.warning('stream %s has no lateness: nothing is late, and its state never expires; write lateness="…"', stream.name)
        if any(_WATERMARK in (field.metadata or {}) for field in df.schema.fields):
            _LOG.warning("stream %s has a watermark of Spark's: joins here go by lateness= instead", stream.name)
        leaves = df._jdf.queryExecution().analyzed().collectLeaves()
        if any(leaves.apply(at).toString() == "socket" for at in range(leaves.size())):
            _LOG.warning("stream %s reads a socket, which cannot replay: after a crash rows are lost, not exactly once", stream.name)


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


def _record(sink: Sink | None) -> SinkRecord:
    if isinstance(sink, Parquet):
        return SinkRecord("parquet", sink.url)
    names: dict[type, Literal["memory", "console", "foreach"]] = {Memory: "memory", Console: "console", ForeachBatch: "foreach"}
    return SinkRecord() if sink is None else SinkRecord(names[type(sink)])


def _absolute(folder: str | os.PathLike[str]) -> str:
    text = os.fspath(folder)
    return (text if ":/" in text else str(Path(text).expanduser().absolute())).rstrip("/")
