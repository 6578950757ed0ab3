"""A job with Kafka sinks, in a process of its own that can be killed; as job.py, with `servers` and `topic` asked for beside.

Two queries go to topics of one cluster and one to files. R and S are Parquet files, one of each per batch.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import clash
import job

QUERIES = {
    "pairs": "SELECT R.a, R.x, S.y FROM R JOIN S ON R.a = S.a",
    "some": "SELECT R.x, S.y + 1 AS z FROM R JOIN S ON R.a = S.a WHERE S.y % 3 = 0",
}


def main(master: str, data: Path) -> None:
    spark = job.session(master)
    job.tell({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        job.environment(spark, asked)
        job.tell(play(spark, data, asked))
    spark.stop()


def play(spark: Any, data: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """One start, until it has read all files, or is killed; `until`: until that many batches are committed."""
    try:
        run = engine(spark, data, asked).start(available_now="until" not in asked)
        while not run.await_termination(0.02):
            if "until" in asked and run.progress["batch"] >= asked["until"]:
                time.sleep(asked.get("pause", 0))
                run.stop()
    except clash.ClashError as error:
        return {"error": {"kind": type(error).__name__, "what": error.what, "detail": error.detail, "hint": error.hint}}
    return {"error": None}


def engine(spark: Any, data: Path, asked: dict[str, Any]) -> Any:
    made = clash.Engine(spark, asked["checkpoint"], workers=2)
    source = spark.readStream.option("maxFilesPerTrigger", 1)
    made.stream("R", source.schema("a bigint, x string").parquet(str(data / "R")))
    made.stream("S", source.schema("a bigint, y bigint").parquet(str(data / "S")))
    for query, text in QUERIES.items():
        options = {"key": "x"} if query == "pairs" else {"headers": True}
        topic = f"{asked['topic']}-{query}"
        made.query(query, text, sink=clash.sinks.Kafka(topic, servers=asked["servers"], create=2, wait=120, **options))
    made.query("files", QUERIES["pairs"], sink=clash.sinks.Parquet(asked["out"]))
    return made


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
