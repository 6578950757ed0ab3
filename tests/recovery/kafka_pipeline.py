"""A job from Kafka to Kafka in a process of its own, to be killed: python kafka_pipeline.py JARS SERVERS PREFIX CHECKPOINT [once]

It reads the topics PREFIX-R and PREFIX-S and writes their join to PREFIX-out. It prints `ready` when it runs; with `once` it ends when all
is read.
"""

from __future__ import annotations

import sys

import clash


def main(jars: str, servers: str, prefix: str, checkpoint: str, *once: str) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "512m")
    spark = clash.configure(builder.config("spark.sql.session.timeZone", "UTC"), kafka=jars).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    engine = clash.Engine(spark, checkpoint, workers=2)
    kafka = clash.sources.Kafka(spark, servers, max_rows=None if once else 200)
    engine.stream("R", kafka.json(f"{prefix}-R", "k long, x long"))
    engine.stream("S", kafka.json(f"{prefix}-S", "k long, y long"))
    sink = clash.sinks.Kafka(f"{prefix}-out", servers=servers, create=2)
    engine.query("joined", "SELECT R.k, R.x, S.y FROM R JOIN S ON R.k = S.k", sink=sink)
    run = engine.start(available_now=bool(once))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    run.await_termination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
