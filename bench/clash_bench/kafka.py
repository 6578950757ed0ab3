"""Streams out of Kafka, and results into it: the time of small batches and the rate, compared with files, and the time from producing a
record to reading the result that it completes.

The broker is the user's: topics with names that begin with `clash-bench-` are made there, and deleted at the end.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from clash.cli.row_content import file_content
from clash.errors import ClashError
from clash_bench.tables import note, write
from clash_bench.tpch_data import Data, tpch_data
from clash_bench.tpch_queries import TABLES, first_queries, tpch_statistics, tpch_streams
from clash_bench.tpch_run import CORES, HEAP
from clash_bench.tpch_sources import stream_frames, write_one_source

SMALL, LARGE = (0.01, 85), (0.1, 10)  # scale and batches
MEASURED = 60  # the last small batches
WARM_UP = 10.0  # seconds of the latency run that do not count


@dataclass(frozen=True)
class KafkaRow:
    """A line of the CSV file."""

    what: str
    """`small batches` and `latency` in milliseconds, `rate` in tuples per second."""
    source: str
    """`kafka`, or `files`: one folder for all streams."""
    run: int
    median: float
    tenth: float | None
    """One value in ten is larger."""
    twentieth: float | None
    results: int


def run(servers: str, rate: int, seconds: float, repeat: int, data: Path, out: Path) -> None:
    """The options are those of the command `kafka`."""
    rows: list[KafkaRow] = []
    with _session() as spark:
        for scale, batches in (SMALL, LARGE):
            loaded = tpch_data(scale, batches, data)
            with TemporaryDirectory(prefix="clash-kafka-") as name, _topics(servers, list(TABLES)) as topics:
                write_one_source(loaded, tpch_streams(first_queries(5)), Path(name) / "one")
                _fill(servers, loaded, topics)
                for number in range(1, repeat + 1):
                    rows += _compare(spark, loaded, servers, topics, Path(name), number)
        for number in range(1, repeat + 1):
            with _topics(servers, ["orders", "payments", "paid"]) as topics:
                rows.append(_latency(spark, servers, topics, rate, seconds, number))
                note(f"from producing to reading a result, {rate:,} records/s: {rows[-1].median:.0f} ms, p95 {rows[-1].twentieth:.0f} ms")
    write(out / "kafka.csv", KafkaRow, rows)


@contextmanager
def _session() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    import clash

    builder = SparkSession.builder.master(f"local[{CORES}]").appName("clash bench kafka").config("spark.driver.memory", HEAP)
    for key, value in {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}.items():
        builder = builder.config(key, value)
    spark = clash.configure(builder.config("spark.sql.session.timeZone", "UTC"), kafka=True).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _topics(servers: str, names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Topics of three partitions, by name."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin, prefix = AdminClient({"bootstrap.servers": servers}), f"clash-bench-{uuid4().hex[:8]}"
    topics = {name: f"{prefix}-{name}" for name in names}
    for created in admin.create_topics([NewTopic(topic, 3) for topic in topics.values()]).values():
        created.result(60)
    try:
        yield topics
    finally:
        for deleted in admin.delete_topics(list(topics.values())).values():
            deleted.result(60)


def _fill(servers: str, data: Data, topics: Mapping[str, str]) -> None:
    """All rows as JSON, batch by batch, in the order of the files."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000})
    for number in range(data.batches):
        for table, rows in data.batch(number).items():
            for at, row in enumerate(rows.to_pylist()):
                producer.produce(topics[table], json.dumps(row, default=str), partition=at % 3)
            producer.flush()


def _compare(spark: Any, data: Data, servers: str, topics: Mapping[str, str], folder: Path, number: int) -> Iterator[KafkaRow]:
    contents = []
    for source in ("files", "kafka"):
        with TemporaryDirectory(prefix="clash-kafka-run-", ignore_cleanup_errors=True) as name:
            seconds, progress = _run_queries(spark, data, servers, topics, folder / "one" if source == "files" else None, Path(name))
            contents.append({query: file_content(f"{name}/{query}/*.parquet") for query in first_queries(5)})
        triggers = sorted(entry["durationMs"].get("triggerExecution", 0) for entry in progress[-MEASURED:])
        tuples = sum(sum(entry["input"].values()) for entry in progress)
        found = sum(content.rows for content in contents[-1].values())
        if data.scale == SMALL[0]:
            tenth = float(triggers[len(triggers) * 9 // 10])
            yield KafkaRow("small batches", source, number, statistics.median(triggers), tenth, None, found)
            note(f"batches of about {tuples // len(progress):,} records, {source}: {statistics.median(triggers):.0f} ms")
        else:
            yield KafkaRow("rate", source, number, tuples / seconds, None, None, found)
            note(f"scale {data.scale:g} in {len(progress)} batches, {source}: {tuples / seconds:,.0f} tuples/s")
    if contents[0] != contents[1]:
        raise ClashError("results out of Kafka differ from those out of files", f"scale {data.scale:g}", "this is a bug of ours")


def _run_queries(
    spark: Any, data: Data, servers: str, topics: Mapping[str, str], one_source: Path | None, folder: Path
) -> tuple[float, list[dict[str, Any]]]:
    import clash

    streams = tpch_streams(first_queries(5))
    engine = clash.Engine(spark, folder / "checkpoint", workers=CORES, adaptive=False, statistics=tpch_statistics(data.scale))
    if one_source is None:
        kafka = clash.sources.Kafka(spark, servers, max_rows=sum(data.rows[s.name] for s in streams) // data.batches + 1)
        for stream in streams:
            schema = ", ".join(f"{column} {kind}" for column, kind in TABLES[stream.name].items())
            engine.stream(stream.name, kafka.json(topics[stream.name], schema))
    else:
        for name, frame in stream_frames(spark, data, streams, one_source).items():
            engine.stream(name, frame)
    for query, text in first_queries(5).items():
        engine.query(query, text, sink=clash.sinks.Parquet(folder / query))
    began = time.perf_counter()
    run = engine.start(available_now=True)
    run.await_termination()
    return time.perf_counter() - began, run.recent_progress


def _latency(spark: Any, servers: str, topics: Mapping[str, str], rate: int, seconds: float, number: int) -> KafkaRow:
    """An order and its payment are produced together; the result has the time at which that was."""
    import clash

    with TemporaryDirectory(prefix="clash-kafka-run-", ignore_cleanup_errors=True) as name:
        engine = clash.Engine(spark, Path(name) / "checkpoint", workers=CORES)
        kafka = clash.sources.Kafka(spark, servers)
        for stream in ("orders", "payments"):
            topic = kafka.json(topics[stream], "id long, produced double", timestamp="at")
            engine.stream(stream, topic, time="at", window="10 seconds", lateness="5 seconds")
        sink = clash.sinks.Kafka(topics["paid"], servers=servers)
        engine.query("paid", "SELECT o.id, p.produced FROM orders o JOIN payments p ON o.id = p.id", sink=sink)
        run = engine.start()
        stopped = threading.Event()
        producer = threading.Thread(target=_produce, args=(servers, topics, rate, stopped), daemon=True)
        producer.start()
        try:
            waits = _read_results(servers, topics["paid"], seconds)
        finally:
            stopped.set()
            producer.join()
            run.stop()
    if len(waits) < 20:
        raise ClashError("there are too few results", f"{len(waits)}", "run it longer")
    cuts = statistics.quantiles(waits, n=20)
    return KafkaRow("latency", "kafka", number, statistics.median(waits), cuts[17], cuts[18], len(waits))


def _produce(servers: str, topics: Mapping[str, str], rate: int, stopped: threading.Event) -> None:
    from confluent_kafka import Producer

    producer, began, sent = Producer({"bootstrap.servers": servers, "linger.ms": 2}), time.time(), 0
    while not stopped.is_set():
        due = int((time.time() - began) * rate / 2)
        for at in range(sent, due):
            for stream in ("orders", "payments"):
                producer.produce(topics[stream], json.dumps({"id": at, "produced": time.time()}))
        sent = due
        producer.poll(0)
        time.sleep(0.005)
    producer.flush(30)


def _read_results(servers: str, topic: str, seconds: float) -> list[float]:
    """Milliseconds from producing the payment to reading its result, committed ones only, after the warm-up."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    options = {"group.id": "clash-bench", "enable.auto.commit": False, "fetch.wait.max.ms": 20}
    consumer = Consumer({"bootstrap.servers": servers, **options})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(3)])
    waits: list[float] = []
    first: float | None = None
    while first is None or time.time() < first + WARM_UP + seconds:
        messages = consumer.consume(1, 0.5)
        messages += consumer.consume(10_000, 0)
        now = time.time()
        for message in messages:
            if message.error() is None:
                first = now if first is None else first
                if now > first + WARM_UP:
                    waits.append((now - float(json.loads(message.value() or b"{}")["produced"])) * 1000)
    consumer.close()
    return waits
