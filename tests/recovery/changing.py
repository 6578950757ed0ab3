"""A job that is changed while it runs, in a process of its own that can be killed, as in job.py.

Two streams and a query over both; with the second batch come a third stream, a query over all three and another number of workers, later
fewer of them. In: checkpoint, out, fail, flag; `known`: the program has the third stream and its query already. Out: the last batch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import clash
import job

COLUMNS = {"R": "a bigint, x bigint", "S": "a bigint, b bigint", "T": "b bigint, y bigint"}
TWO = "SELECT R.x, S.a, S.b FROM R JOIN S ON R.a = S.a"
THREE = "SELECT R.x, S.b, T.y FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b"


def main(master: str, data: Path) -> None:
    spark = job.session(master)
    job.tell({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        job.environment(spark, asked)
        job.tell(play(spark, data, asked))
    spark.stop()


def play(spark: Any, data: Path, asked: dict[str, Any]) -> dict[str, Any]:
    out = Path(asked["out"])

    def source(stream: str) -> Any:
        df = spark.readStream.schema(COLUMNS[stream]).option("maxFilesPerTrigger", 1).parquet(str(data / stream))
        return df.selectExpr("*", "1 AS one") if stream == "T" else df  # more than plain files: the Spark query starts twice for it

    engine = clash.Engine(spark, asked["checkpoint"], workers=2, epoch=1, adaptive=False)
    for stream in "RST" if asked.get("known") else "RS":
        engine.stream(stream, source(stream))
    engine.query("two", TWO, sink=clash.sinks.Parquet(out / "two"))
    if asked.get("known"):
        engine.query("three", THREE, sink=clash.sinks.Parquet(out / "three"))
    run = engine.start()
    until(run, 1)
    if not asked.get("known"):
        run.stream("T", source("T"))
        change = run.add_query("three", THREE, sink=clash.sinks.Parquet(out / "three"))
        run.rescale(3)
        until(run, change.wait() + 1)
        run.rescale(1)
    run.process_all_available()
    run.stop()
    return {"batch": run.progress["batch"], "workers": [generation["workers"] for generation in run.generations]}


def until(run: Any, batch: int) -> None:
    while run.is_active and run.progress["batch"] < batch:
        run.await_termination(0.02)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
