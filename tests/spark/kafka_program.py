"""A program over three Kafka topics in a process of its own, because a running Spark cannot be given the connector's jars:

python -m tests.spark.kafka_program JARS SERVERS CHECKPOINT ARRANGEMENT…

It is started once for each arrangement of its sources, one after the other, and prints what came of it as a line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

TOPICS = ("r", "s", "t")


def frames(spark: Any, servers: str, arrangement: str) -> dict[str, Any]:
    """The streams by name: with a source each, filtered out of one, or in any other arrangement that Kafka's source takes."""

    def read(**options: str) -> Any:
        options = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest", "kafka.sasl.jaas.config": "very secret", **options}
        return spark.readStream.format("kafka").options(**options).load()

    def columns(rows: Any) -> Any:
        return rows.selectExpr("CAST(value AS STRING) AS value", "topic")

    if arrangement == "own":
        return {topic: columns(read(subscribe=topic)) for topic in TOPICS}
    options = {
        "shared": {"subscribe": ",".join(TOPICS)},
        "more topics": {"subscribe": ",".join(("u", *TOPICS)), "maxOffsetsPerTrigger": "1000"},
        "pattern": {"subscribePattern": ".*"},
        "other servers": {"subscribe": ",".join(TOPICS), "kafka.bootstrap.servers": f"localhost:{servers.rpartition(':')[2]}"},
    }[arrangement]
    rows = columns(read(**options))
    return {topic: rows.where(rows.topic == topic) for topic in TOPICS}


def main(jars: str, servers: str, checkpoint: str, *arrangements: str) -> None:
    from pyspark.sql import SparkSession

    import clash

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "512m")
    spark = clash.configure(builder, kafka=jars).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for arrangement in arrangements:
        engine = clash.Engine(spark, checkpoint, workers=1)
        for stream, frame in frames(spark, servers, arrangement).items():
            engine.stream(stream, frame)
            engine.query(f"all_{stream}", f"SELECT {stream}.value FROM {stream}")
        found: dict[str, Any]
        try:
            run = engine.start(available_now=True)
            run.await_termination(300)
            found = {stream: run.results(f"all_{stream}").count() for stream in TOPICS}
        except clash.ClashError as error:
            found = {"what": error.what, "detail": error.detail}
        sys.stdout.write(f"{json.dumps(found)}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
