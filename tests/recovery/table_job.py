"""The job of test_tables.py, in a process of its own that can be killed: `table_job.py MASTER FOLDER`, one line in per start."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import clash
from job import environment, session, tell


def main(master: str, data: Path) -> None:
    spark = session(master)
    tell({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        environment(spark, asked)
        tell(play(spark, data, asked))


def play(spark: Any, data: Path, asked: dict[str, Any]) -> dict[str, Any]:
    engine = clash.Engine(spark, asked["checkpoint"], workers=2)
    engine.stream("R", spark.readStream.schema("a bigint, x bigint").option("maxFilesPerTrigger", 1).parquet(str(data / "R")))
    engine.table("N", spark.createDataFrame([(key, asked["name"]) for key in range(3)], "k bigint, name string"))
    engine.query("q", "SELECT R.x, N.name FROM R JOIN N ON R.a = N.k", sink=clash.sinks.Parquet(asked["out"]))
    engine.start(available_now=True).await_termination()
    return {"done": True}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
