"""A job whose checkpoint and results are on a remote storage, in a process of its own that can be killed.

Arguments: the folder of its sources, the location of checkpoint and results, Spark settings as JSON. A line of JSON in is one start: `fail`
(CLASH_FAILPOINT); `wait`: after its first batch it waits for a line before it goes on. A line out is its end.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import clash

TEXT = "SELECT R.x, S.y FROM R JOIN S ON R.a = S.a"


def main(data: Path, location: str, settings: dict[str, str]) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
    builder.config("spark.log.level", "OFF").config("spark.ui.showConsoleProgress", "false").config("spark.sql.session.timeZone", "UTC")
    for key, value in settings.items():
        builder.config(key, value)
    spark = clash.configure(builder).getOrCreate()
    tell({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        os.environ["CLASH_FAILPOINT"] = asked.get("fail", "")
        try:
            tell(play(spark, data, location, asked))
        except clash.ClashError as error:
            tell({"kind": type(error).__name__, "what": error.what, "detail": error.detail, "hint": error.hint})
    spark.stop()


def play(spark: Any, data: Path, location: str, asked: dict[str, Any]) -> dict[str, Any]:
    held = asked.get("wait", False)

    def take(df: Any, batch: int) -> None:
        nonlocal held
        if held:
            held = False
            tell({"batch": batch})
            sys.stdin.readline()

    run = engine(spark, data, location, take).start(available_now=True)
    run.await_termination()
    return {"end": run.progress["batch"], "rows": run.results("kept").count()}


def engine(spark: Any, data: Path, location: str, take: Any) -> Any:
    made = clash.Engine(spark, f"{location}/checkpoint", workers=2)
    for stream, schema in (("R", "a bigint, x string"), ("S", "a bigint, y bigint")):
        made.stream(stream, spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(data / stream)))
    made.query("kept", TEXT)
    made.query("written", TEXT, sink=clash.sinks.Parquet(f"{location}/results"))
    made.query("taken", TEXT, sink=clash.sinks.ForeachBatch(take))
    return made


def tell(answer: dict[str, Any]) -> None:
    sys.stdout.write(f"@{json.dumps(answer)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
