"""A program as users write it, for what is seen of it on a terminal. Arguments: what it does, and its folder."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import clash

FILES = 12
PAIRS = "SELECT R.a, R.b, S.b AS c FROM R JOIN S ON R.a = S.a"


def session() -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
    builder.config("spark.ui.showConsoleProgress", "false").config(
        "spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    )
    return clash.configure(builder).getOrCreate()


def say(text: str) -> None:
    sys.stderr.write(f"=== {text}\n")
    sys.stderr.flush()


def write(root: Path, file: int) -> None:
    for stream in "RS":
        (root / stream).mkdir(parents=True, exist_ok=True)
        table = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "b": pa.array([file] * 3, pa.int64())})
        pq.write_table(table, root / "new")
        (root / "new").rename(root / stream / f"{file:03d}.parquet")


def engine(spark: Any, root: Path, text: str = PAIRS, sink: Any = None, change: Callable[[Any], Any] = lambda df: df) -> Any:
    made = clash.Engine(spark, root / "checkpoint", workers=2, name="shop")
    for stream in "RS":
        df = spark.readStream.schema("a bigint, b bigint").option("maxFilesPerTrigger", 1).parquet(str(root / stream))
        made.stream(stream, change(df))
    made.query("q", text, sink=sink)
    return made


def wait(spark: Any, root: Path) -> None:
    """Until it is told to stop, with a batch in work at any time."""
    run = engine(spark, root).start()
    while run.progress["batch"] < 0:
        run.await_termination(0.05)
    for file in range(2, FILES):
        write(root, file)
    say("waits")
    run.await_termination()


def finish(spark: Any, root: Path) -> None:
    run = engine(spark, root).start(available_now=True)
    run.await_termination()
    say(f"results {run.results('q').count()}")


def fail(spark: Any, root: Path) -> None:
    """In several ways, one after the other."""
    from pyspark.sql import functions as F  # noqa: N812

    def locked(df: Any, batch: int) -> None:
        raise ValueError("the table is locked")

    def raising(value: int) -> int:
        raise ValueError("bad row")

    def dying(value: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return value

    def applied(function: Callable[[int], int]) -> Callable[[Any], Any]:
        return lambda df: df.withColumn("b", F.udf(function, "bigint", useArrow=False)("b"))

    def no_parquet(folder: Path) -> None:
        (folder / "S" / "001.parquet").write_bytes(b"this is not Parquet, but long enough for a footer")

    def no_checkpoint(folder: Path) -> None:
        shutil.rmtree(folder / "checkpoint" / "clash")
        (folder / "checkpoint" / "clash").touch()

    cases: dict[str, tuple[dict[str, Any], Callable[[Path], None]]] = {
        "sink": ({"sink": clash.sinks.ForeachBatch(locked)}, lambda folder: None),
        "file": ({}, no_parquet),
        "value": ({"text": "SELECT 1 / (R.a - 1) AS x FROM R JOIN S ON R.a = S.a"}, lambda folder: None),
        "function": ({"change": applied(raising)}, lambda folder: None),
        "worker": ({"change": applied(dying)}, lambda folder: None),
        "disk": ({"sink": clash.sinks.ForeachBatch(lambda df, batch: no_checkpoint(root / "disk"))}, lambda folder: None),
    }
    for case, (options, spoil) in cases.items():
        folder = root / case
        for file in range(2):
            write(folder, file)
        spoil(folder)
        run = engine(spark, folder, **options).start()
        say(case)
        try:
            run.await_termination()
        except clash.ClashError:
            sys.excepthook(*sys.exc_info())  # as for one that nobody catches
    say("end")


def restart(spark: Any, root: Path) -> None:
    """A planned restart of the Spark query, for a stream and columns that were not read."""
    run = engine(spark, root, "SELECT R.a FROM R JOIN S ON R.a = S.a", change=lambda df: df.selectExpr("*", "1 AS one")).start()
    run.process_all_available()
    say("running")
    df = spark.readStream.schema("a bigint, b bigint").parquet(str(root / "R"))
    run.stream("T", df)
    change = run.add_query("three", "SELECT R.b, T.b AS c FROM R JOIN T ON R.a = T.a")
    write(root, 2)
    say(f"batch {change.wait(300)}")
    run.process_all_available()
    run.stop()
    say("end")


def main() -> None:
    what, root = sys.argv[1], Path(sys.argv[2])
    spark = session()
    say("ready")
    {"wait": wait, "finish": finish, "fail": fail, "restart": restart}[what](spark, root)
    spark.stop()


if __name__ == "__main__":
    main()
