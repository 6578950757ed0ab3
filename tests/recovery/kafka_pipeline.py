"""A job from Kafka to Kafka, in a process of its own that can be killed; as job.py, with `servers` and `prefix` asked for beside.

It reads the topics PREFIX-R and PREFIX-S and writes their join to PREFIX-out, in batches of at most 200 records; with `once` it ends when
all is read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import clash
import job
import servers

TEXT = "SELECT R.k, R.x, S.y FROM R JOIN S ON R.k = S.k"


def main(master: str) -> None:
    spark = job.session(master, str(servers.get("kafka-connector")))
    job.tell({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        job.environment(spark, asked)
        job.tell(play(spark, asked))
    spark.stop()


def play(spark: Any, asked: dict[str, Any]) -> dict[str, Any]:
    once = asked.get("once", False)
    try:
        engine(spark, asked, once).start(available_now=once).await_termination()
    except clash.ClashError as error:
        return {"error": {"kind": type(error).__name__, "what": error.what, "detail": error.detail, "hint": error.hint}}
    return {"error": None}


def engine(spark: Any, asked: dict[str, Any], once: bool) -> Any:
    made = clash.Engine(spark, asked["checkpoint"], workers=2)
    kafka = clash.sources.Kafka(spark, asked["servers"], max_rows=None if once else 200)
    made.stream("R", kafka.json(f"{asked['prefix']}-R", "k long, x long"))
    made.stream("S", kafka.json(f"{asked['prefix']}-S", "k long, y long"))
    made.query("joined", TEXT, sink=clash.sinks.Kafka(f"{asked['prefix']}-out", servers=asked["servers"], create=2))
    return made


if __name__ == "__main__":
    main(sys.argv[1])
