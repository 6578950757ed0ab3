"""The job under test, in a process of its own that can be killed. One JSON line in is one start of the engine, one line out its end.

In: checkpoint, out (folders), fail (CLASH_FAILPOINT) and flag (CLASH_FAILPOINT_FLAG), until (stop once that batch is committed, and
after a pause in seconds; without it the engine runs until all files are read). Out: the last batch, and the error in its parts.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import shapes

import clash
import task_choice


def main(master: str, data: Path) -> None:
    spark = session(master)
    tell({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        environment(spark, asked)
        began = time.perf_counter()
        tell({**play(spark, data, asked), "seconds": round(time.perf_counter() - began, 1)})
    spark.stop()


def session(master: str, kafka: str | bool = False) -> Any:
    from pyspark.sql import SparkSession

    task_choice.alternate()
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
    builder.config("spark.sql.session.timeZone", "UTC").config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false")
    builder.config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")  # it lives for seconds
    return clash.configure(builder, kafka=kafka).getOrCreate()


def environment(spark: Any, asked: dict[str, Any]) -> None:
    """Of this process and of Python workers from now on: Spark starts new ones for a new environment."""
    for name, key in (("CLASH_FAILPOINT", "fail"), ("CLASH_FAILPOINT_FLAG", "flag")):
        for variables in (os.environ, spark.sparkContext.environment):
            variables.pop(name, None)
            if asked.get(key):
                variables[name] = asked[key]


def play(spark: Any, data: Path, asked: dict[str, Any]) -> dict[str, Any]:
    run = None
    try:
        run = engine(spark, data, asked["checkpoint"], Path(asked["out"])).start(available_now=asked.get("until") is None)
        if asked.get("until") is None:
            run.await_termination()
        else:
            while run.is_active and run.progress["batch"] < asked["until"]:
                run.await_termination(0.02)
            time.sleep(asked.get("pause", 0))
            run.stop()
            run.await_termination()
    except clash.ClashError as error:
        parts = {"kind": type(error).__name__, "what": error.what, "detail": error.detail, "hint": error.hint}
        return {"batch": None if run is None else run.progress["batch"], "error": parts}
    return {"batch": run.progress["batch"], "error": None}


def engine(spark: Any, data: Path, checkpoint: str, out: Path) -> Any:
    made = clash.Engine(spark, checkpoint, **shapes.OPTIONS)
    for stream in shapes.COLUMNS:
        df = spark.readStream.schema(shapes.spark_schema(stream)).option("maxFilesPerTrigger", 1).parquet(str(data / stream))
        timed = {"time": "ts", "lateness": f"{shapes.LATENESS // 1000} milliseconds"} if stream in shapes.TIMED else {}
        made.stream(stream, df, **timed)

    def take(df: Any, batch: int) -> None:
        import pyarrow.parquet as pq

        folder = out / shapes.HANDED
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(df.toArrow(), folder / f"{batch:09d}-{time.time_ns()}.parquet")

    for query, text in shapes.QUERIES.items():
        sink = clash.sinks.Parquet(out / query)
        if query in (shapes.KEPT, shapes.HANDED):
            sink = None if query == shapes.KEPT else clash.sinks.ForeachBatch(take)
        made.query(query, text, sink=sink, windows=shapes.windows(query))
    return made


def tell(answer: dict[str, Any]) -> None:
    sys.stdout.write(f"@{json.dumps(answer)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
