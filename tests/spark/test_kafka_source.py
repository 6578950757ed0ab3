"""Streams out of a real broker: the same results as the batch join of their records, and nothing lost or read twice."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pytest
from tests.servers import KafkaServer

import clash
from clash.errors import OptionError, SourceError
from clash.kafka.client_options import check_options, for_spark
from clash.kafka.topics import check_topics

from .files import COLUMNS, JOIN, WITHIN, counted, table

SCHEMAS = {stream: f"{', '.join(f'{name} bigint' for name in columns)}, ts timestamp" for stream, columns in COLUMNS.items()}
TIMED = {"time": "ts", "window": "500 milliseconds", "lateness": "10 seconds"}


class Topics:
    """A topic per stream, under names of this test alone."""

    def __init__(self, server: KafkaServer, partitions: int = 3) -> None:
        self.server, self.name = server, f"t{uuid4().hex[:8]}"
        server.create(*(self.of(stream) for stream in COLUMNS), partitions=partitions)
        self.rows: dict[str, list[pa.Table]] = {stream: [] for stream in COLUMNS}

    def of(self, stream: str) -> str:
        return f"{self.name}.{stream}"

    def feed(self, seconds: Iterable[int], timestamp: int = 0) -> None:
        """`timestamp`: of the records, in milliseconds; 0 is now."""
        for second in seconds:
            for stream in COLUMNS:
                rows = table(stream, second)
                self.rows[stream].append(rows)
                texts = [json.dumps({**row, "ts": row["ts"].isoformat()}) for row in rows.to_pylist()]
                self.server.produce(self.of(stream), [{"value": text, "timestamp": timestamp} for text in texts])

    def declare(self, engine: Any, spark: Any, streams: Sequence[str] = tuple(COLUMNS), **options: Any) -> Any:
        source = clash.sources.Kafka(spark, self.server.servers, **options)
        for stream in streams:
            engine.stream(stream, source.json(self.of(stream), SCHEMAS[stream]), **TIMED)
        return source

    def expected(self, schema: pa.Schema) -> Counter[str]:
        with duckdb.connect() as connection:
            connection.execute("SET timezone = 'UTC'")
            for stream, parts in self.rows.items():
                connection.register(stream, pa.concat_tables(parts))
            return counted(connection.sql(f"{JOIN} WHERE {WITHIN}").to_arrow_table().cast(schema))


@pytest.fixture
def topics(kafka_server: KafkaServer, spark: Any) -> Topics:
    return Topics(kafka_server)


def run_once(spark: Any, checkpoint: str, topics: Topics, **options: Any) -> Any:
    engine = clash.Engine(spark, checkpoint, workers=2)
    topics.declare(engine, spark, **options)
    engine.query("q", JOIN)
    run = engine.start(available_now=True)
    assert run.await_termination(300)
    return run


def results(run: Any, query: str = "q") -> pa.Table:
    return run.results(query).toArrow()


def test_results_equal_the_batch_join_over_restarts(spark: Any, checkpoint: str, topics: Topics) -> None:
    for life in range(3):
        topics.feed(range(life * 2, life * 2 + 2))
        run = run_once(spark, checkpoint, topics)
        found = results(run)
        assert counted(found) == topics.expected(found.schema)
    assert [folder.name for folder in (Path(checkpoint) / "spark" / "sources").iterdir()] == ["0"]  # one source for all streams
    assert run.progress["totals"]["input"] == dict.fromkeys(COLUMNS, 240)


def test_another_cluster_has_other_offsets(
    spark: Any, checkpoint: str, topics: Topics, kafka_server: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.feed(range(1))
    run_once(spark, checkpoint, topics)
    monkeypatch.setattr("clash.spark.kafka_source.check_topics", lambda *_: "another")
    with pytest.raises(clash.CheckpointError, match="the sources of a stream are not those of the checkpoint") as refused:
        run_once(spark, checkpoint, topics)
    assert f"(cluster {kafka_server.admin().list_topics(timeout=60).cluster_id})" in refused.value.detail
    assert "(cluster another)" in refused.value.detail


def test_small_batches(spark: Any, checkpoint: str, topics: Topics) -> None:
    topics.feed(range(3))
    run = run_once(spark, checkpoint, topics, max_rows=150)
    assert run.progress["batch"] >= 6
    found = results(run)
    assert counted(found) == topics.expected(found.schema)


def test_records_arrive_while_it_runs(spark: Any, checkpoint: str, topics: Topics) -> None:
    engine = clash.Engine(spark, checkpoint, workers=2)
    topics.declare(engine, spark)
    engine.query("q", JOIN)
    run = engine.start()
    for second in range(3):
        topics.feed([second])
        run.process_all_available()
    assert run.progress["backlog"] == {stream: {"rows": 0} for stream in COLUMNS}
    run.stop()
    found = results(run)
    assert counted(found) == topics.expected(found.schema)


def test_new_partitions_and_a_stream_that_is_added(spark: Any, checkpoint: str, topics: Topics) -> None:
    engine = clash.Engine(spark, checkpoint, workers=2)
    source = topics.declare(engine, spark, ["R", "S"])
    engine.query("rs", "SELECT R.x, S.b FROM R JOIN S ON R.a = S.a")
    run = engine.start()
    topics.feed([0])
    run.process_all_available()
    topics.server.add_partitions(topics.of("R"), 5)
    run.stream("T", source.json(topics.of("T"), SCHEMAS["T"]), **TIMED)
    run.add_query("q", JOIN)
    time.sleep(3)  # librdkafka and Java's client learn of partitions now and then
    topics.feed([1, 2])
    run.process_all_available()
    run.process_all_available()
    run.stop()
    assert run.progress["totals"]["input"] == {"R": 360, "S": 360, "T": 360}
    assert [folder.name for folder in (Path(checkpoint) / "spark" / "sources").iterdir()] == ["0"]


def test_with_other_sources_in_one_job(spark: Any, checkpoint: str, topics: Topics, tmp_path: Path) -> None:
    """R from Kafka, S from Parquet files, T from JSON files, which only Spark reads; then without T, so that tasks read everything."""
    topics.feed(range(2))
    import pyarrow.parquet as pq

    for stream in "ST":
        (tmp_path / stream).mkdir()
    for number, rows in enumerate(topics.rows["S"]):
        pq.write_table(rows, tmp_path / "S" / f"{number}.parquet")
    for number, rows in enumerate(topics.rows["T"]):
        lines = [json.dumps({**row, "ts": row["ts"].isoformat()}) for row in rows.to_pylist()]
        (tmp_path / "T" / f"{number}.json").write_text("\n".join(lines))
    for streams, text in ((("R", "S", "T"), JOIN), (("R", "S"), "SELECT R.x, S.b FROM R JOIN S ON R.a = S.a")):
        engine = clash.Engine(spark, f"{checkpoint}-{len(streams)}", workers=2)
        topics.declare(engine, spark, ["R"])
        engine.stream("S", spark.readStream.schema(SCHEMAS["S"]).parquet(str(tmp_path / "S")), **TIMED)
        if "T" in streams:
            engine.stream("T", spark.readStream.schema(SCHEMAS["T"]).json(str(tmp_path / "T")), **TIMED)
        engine.query("q", text)
        run = engine.start(available_now=True)
        assert run.await_termination(300)
        assert run.progress["totals"]["input"] == dict.fromkeys(streams, 240)
        if "T" in streams:
            found = results(run)
            assert counted(found) == topics.expected(found.schema)


def test_bad_records_are_kept_with_their_place_and_reason(spark: Any, checkpoint: str, topics: Topics) -> None:
    topics.feed([0])
    bad = [b"not json", b'{"a": "text"}', None, b'{"a": 1, "x": 2}', b"\xff\xfe"]
    topics.server.produce(topics.of("R"), [{"value": value, "key": b"k", "partition": 1} for value in bad])
    run = run_once(spark, checkpoint, topics)
    found = results(run)
    assert counted(found) == topics.expected(found.schema)
    rejected = run.rejected("R").toArrow().sort_by("offset").to_pylist()
    assert [row["value"] for row in rejected] == bad
    assert {(row["topic"], row["partition"], row["key"]) for row in rejected} == {(topics.of("R"), 1, b"k")}
    assert all(row["reason"] for row in rejected)
    assert rejected[3]["reason"] == "no event time"
    assert run.progress["totals"]["rejected"] == {"R": 5}
    assert run.rejected("S").count() == 0


def test_a_bad_record_fails_the_run_where_that_is_asked_for(spark: Any, checkpoint: str, topics: Topics) -> None:
    topics.server.produce(topics.of("R"), [{"value": b"not json", "partition": 2}])
    engine = clash.Engine(spark, checkpoint)
    source = clash.sources.Kafka(spark, topics.server.servers)
    engine.stream("R", source.json(topics.of("R"), SCHEMAS["R"], bad="fail"), **TIMED)
    engine.query("q", "SELECT R.x FROM R")
    run = engine.start(available_now=True)
    with pytest.raises(SourceError, match="a record of stream R cannot be read") as caught:
        run.await_termination(300)
    assert f"topic {topics.of('R')}, partition 2, offset 0" in caught.value.detail


def check_loss(spark: Any, checkpoint: str, topics: Topics, start: int, end: int) -> None:
    """Offsets of R that Kafka has deleted are named where that fails the run, and otherwise counted."""
    new = {"client.id": topics.name}  # a new client, which has not fetched them ahead
    with pytest.raises(SourceError, match="records of stream R are lost") as caught:
        run_once(spark, checkpoint, topics, options=new)
    assert f"topic {topics.of('R')}, partition 0, offsets {start} to {end - 1}" in caught.value.detail
    run = run_once(spark, checkpoint, topics, on_loss="continue", options=new)
    assert run.progress["totals"]["lost"] == {"R": end - start}
    fed = pa.concat_tables(topics.rows["R"])
    topics.rows["R"] = [fed.slice(0, start), fed.slice(end)]
    found = results(run)
    assert counted(found) == topics.expected(found.schema)


def test_records_that_were_deleted(spark: Any, checkpoint: str, kafka_server: KafkaServer) -> None:
    from confluent_kafka import TopicPartition

    topics = Topics(kafka_server, partitions=1)
    topics.feed([0])
    run_once(spark, checkpoint, topics)
    topics.feed([1])
    admin = kafka_server.admin()
    for deleted in admin.delete_records([TopicPartition(topics.of("R"), 0, 150)]).values():
        deleted.result(30)
    check_loss(spark, checkpoint, topics, 120, 150)


def test_records_that_are_too_old(spark: Any, checkpoint: str, kafka_server: KafkaServer) -> None:
    """Retention by time."""
    topics = Topics(kafka_server, partitions=1)
    hours_ago = int(time.time() * 1000) - 5 * 3_600_000
    topics.feed([0], timestamp=hours_ago)
    run_once(spark, checkpoint, topics)
    topics.feed([1], timestamp=hours_ago)
    kafka_server.configure(topics.of("R"), {"retention.ms": "3600000"})
    while kafka_server.begins(topics.of("R")) != {0: 240}:
        time.sleep(0.1)
    topics.feed([2])
    check_loss(spark, checkpoint, topics, 120, 240)


def test_topics_are_checked_by_name(spark: Any, checkpoint: str, topics: Topics) -> None:
    engine = clash.Engine(spark, checkpoint)
    source = clash.sources.Kafka(spark, topics.server.servers)
    engine.stream("R", source.json(topics.of("r"), SCHEMAS["R"]))
    engine.query("q", "SELECT R.x FROM R")
    with pytest.raises(OptionError, match="a Kafka topic is missing") as caught:
        engine.start(available_now=True)
    assert f"stream R: '{topics.of('r')}'" in caught.value.detail
    assert topics.of("R") in caught.value.hint
    assert not Path(checkpoint).exists()


def test_parts_of_records_as_columns(spark: Any, checkpoint: str, topics: Topics) -> None:
    record = {"key": b"k1", "timestamp": 1_700_000_000_123, "headers": [("a", b"1"), ("b", None)], "partition": 0}
    topics.server.produce(topics.of("R"), [{**record, "value": b'{"a": 5}'}])
    engine = clash.Engine(spark, checkpoint)
    source = clash.sources.Kafka(spark, topics.server.servers)
    stream = source.json(topics.of("R"), "a long", key="k", timestamp="at", headers="h")
    engine.stream("R", stream, time="at", window="1 minute", lateness="1 second")
    engine.query("q", "SELECT R.a, R.k, R.at, R.h FROM R")
    run = engine.start(available_now=True)
    assert run.await_termination(300)
    (row,) = results(run).to_pylist()
    assert (row["a"], row["k"], row["h"]) == (5, b"k1", [{"key": "a", "value": b"1"}, {"key": "b", "value": None}])
    assert row["at"].timestamp() == 1_700_000_000.123


def test_a_timestamp_that_is_out_of_range(spark: Any, checkpoint: str, kafka_server: KafkaServer) -> None:
    """A producer that writes nanoseconds."""
    topic = f"t{uuid4().hex[:8]}"
    kafka_server.create(topic, config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    records = [{"value": b'{"a": 1}', "timestamp": 10**18}, {"value": b"bad", "timestamp": 10**18}, {"value": b'{"a": 2}'}]
    kafka_server.produce(topic, records)
    engine = clash.Engine(spark, checkpoint)
    source = clash.sources.Kafka(spark, kafka_server.servers)
    engine.stream("R", source.json(topic, "a long", timestamp="at"))
    engine.query("q", "SELECT R.a, R.at FROM R")
    run = engine.start(available_now=True)
    assert run.await_termination(300)
    assert [row["a"] for row in results(run).to_pylist()] == [2]
    rejected = run.rejected("R").toArrow().sort_by("offset").to_pylist()
    assert [(row["offset"], row["timestamp"]) for row in rejected] == [(0, None), (1, None)]
    assert rejected[0]["reason"] == "its timestamp is out of range"


def test_wrong_arguments(spark: Any) -> None:
    kafka = clash.sources.Kafka(spark, "127.0.0.1:1", options={"sasl.password": "secret", "sasl.mechanism": "PLAIN"})
    assert "secret" not in repr(kafka) + str(kafka)
    for call in (
        lambda: clash.sources.Kafka(spark, ""),
        lambda: clash.sources.Kafka(spark, "h:1", starting="now"),
        lambda: clash.sources.Kafka(spark, "h:1", max_rows=0),
        lambda: clash.sources.Kafka(spark, "h:1", on_loss="ignore"),
        lambda: clash.sources.Kafka(spark, "h:1", options={"group.id": "x"}),
        lambda: clash.sources.Kafka(spark, "h:1", options={"enable.partition.eof": False}),
        lambda: clash.sources.Kafka(spark, "h:1", options={"error_cb": "secret"}),
        lambda: check_topics(check_options("127.0.0.1:1", {"security.protocol": "secret"}), {}),
        lambda: check_topics(check_options("127.0.0.1:1", {"no.such.option": "secret"}), {}),
        lambda: for_spark(check_options("127.0.0.1:1", {"ssl.key.location": "/no/such/file"})),
        lambda: clash.sources.Kafka(None, "h:1"),
        lambda: kafka.json("a b", "a long"),
        lambda: kafka.json("a", "a lon"),
        lambda: kafka.json("a", "a long", bad="drop"),
        lambda: kafka.json("a", "a long", key="A"),
    ):
        with pytest.raises(OptionError) as caught:
            call()
        assert caught.value.hint
        assert "secret" not in str(caught.value)
