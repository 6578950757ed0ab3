"""The job of test_projections.py, in a process of its own that can be killed: `projection_job.py MASTER FOLDER`, one line in per start."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from projection_queries import ADDED, QUERIES

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
    engine = clash.Engine(spark, asked["checkpoint"], workers=2, epoch=1)
    for stream in "RS":
        df = spark.readStream.schema("a bigint, b bigint, x string").option("maxFilesPerTrigger", 1).parquet(str(data / stream))
        engine.stream(stream, df, keep="all")
    for name, text in QUERIES.items():
        if name not in asked.get("without", ()):
            engine.query(name, text, sink=clash.sinks.Parquet(asked["out"]) if name == "across" else None)
    added = asked.get("added")
    run = engine.start(available_now=added is None)
    if added is not None:
        run.add_query(added, ADDED)
        run.process_all_available()
        run.stop()
    run.await_termination()
    queries = {*QUERIES, *run.queries}
    return {name: sorted(str([*row]) for row in run.results(name).collect()) for name in queries if name not in asked.get("without", ())}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
