"""The job of test_outer_queries.py, in a process of its own that can be killed: `outer_job.py MASTER FOLDER`, one line in per start."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import clash
from job import environment, session, tell

JOINED = "FROM R JOIN S ON R.a = S.a"
QUERIES = {"files": f"SELECT S.b, count(*) AS n, sum(R.x) AS x {JOINED} GROUP BY S.b", "kept": f"SELECT count(*) AS n {JOINED}"}


def main(master: str, data: Path) -> None:
    spark = session(master)
    tell({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        environment(spark, asked)
        tell(play(spark, data, asked))


def play(spark: Any, data: Path, asked: dict[str, Any]) -> dict[str, Any]:
    engine = clash.Engine(spark, asked["checkpoint"], workers=1)
    for stream, columns in {"R": "a bigint, x bigint", "S": "a bigint, b bigint"}.items():
        df = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(data / stream))
        engine.stream(stream, df)
    engine.query("files", QUERIES["files"], sink=clash.sinks.Parquet(asked["out"]), mode="update")
    engine.query("kept", QUERIES["kept"])
    run = engine.start(available_now="trigger" not in asked, trigger=asked.get("trigger"))
    if "trigger" in asked:
        run.process_all_available()
        run.stop()
    run.await_termination()
    return {"kept": run.results("kept").collect()[0][0]}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
