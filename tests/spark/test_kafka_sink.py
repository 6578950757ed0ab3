"""Queries whose results go to Kafka: from the declaration to a start that goes on, against a real broker."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.servers import KafkaServer, PostgresServer

import clash
from clash.sinks import Kafka

TEXT = "SELECT R.a, R.x, S.y FROM R JOIN S ON R.a = S.a"
OTHER = "SELECT R.x AS x, S.y + 1 AS z FROM R JOIN S ON R.a = S.a WHERE S.y > 3"
ROWS = 40


class Job:
    """R and S are Parquet files, one of each per batch."""

    def __init__(self, spark: Any, server: KafkaServer, root: Path) -> None:
        self.spark, self.server, self.root = spark, server, root
        self.topic = uuid4().hex[:12]
        self.files = 0
        for stream in "RS":
            (root / stream).mkdir()

    def write(self, files: int = 1) -> None:
        for _ in range(files):
            at = self.files
            pq.write_table(
                pa.table({"a": [(row * 7 + at) % 30 for row in range(ROWS)], "x": [f"x{row}-{at}" for row in range(ROWS)]}),
                self.root / "R" / f"{at:03d}.parquet",
            )
            pq.write_table(
                pa.table({"a": [row % 25 for row in range(ROWS)], "y": [row + at * ROWS for row in range(ROWS)]}),
                self.root / "S" / f"{at:03d}.parquet",
            )
            self.files += 1

    def sink(self, suffix: str = "", **options: Any) -> Kafka:
        return Kafka(self.topic + suffix, servers=self.server.servers, **{"create": 2, "wait": 30, **options})

    def engine(self, **queries: tuple[str, Any]) -> clash.Engine:
        made = clash.Engine(self.spark, self.root / "ck", workers=2, epoch=1)
        source = self.spark.readStream.option("maxFilesPerTrigger", 1)
        made.stream("R", source.schema("a bigint, x string").parquet(str(self.root / "R")))
        made.stream("S", source.schema("a bigint, y bigint").parquet(str(self.root / "S")))
        for name, (text, sink) in queries.items():
            made.query(name, text, sink=sink)
        return made

    def play(self, **queries: tuple[str, Any]) -> None:
        assert self.engine(**queries).start(available_now=True).await_termination(120)

    def found(self, suffix: str = "") -> Counter[tuple[Any, ...]]:
        return Counter(tuple(json.loads(message.value()).values()) for message in self.server.consume(self.topic + suffix))

    def expected(self, text: str = TEXT, since: int = 0) -> Counter[tuple[Any, ...]]:
        """Of all files; `since`: only results with a row of that file or a later one."""
        results = self._joined(text, self.files)
        return results - self._joined(text, since) if since else results

    def _joined(self, text: str, files: int) -> Counter[tuple[Any, ...]]:
        with duckdb.connect() as connection:
            for stream in "RS":
                paths = [str(self.root / stream / f"{at:03d}.parquet") for at in range(files)]
                connection.execute(f"CREATE VIEW {stream} AS SELECT * FROM read_parquet({paths})")
            return Counter(connection.sql(text).fetchall())


@pytest.fixture
def job(spark: Any, kafka_server: KafkaServer, tmp_path: Path) -> Job:
    return Job(spark, kafka_server, tmp_path)


def test_results_of_several_queries_are_there_once(job: Job) -> None:
    job.write(3)
    queries: dict[str, tuple[str, Any]] = {
        "q": (TEXT, job.sink("-q", key="a", headers=True)),
        "p": (OTHER, job.sink("-p")),
        "file": (TEXT, clash.sinks.Parquet(job.root / "out")),
    }
    job.play(**queries)
    job.write(2)
    job.play(**queries)
    job.play(**queries)
    assert job.found("-q") == job.expected()
    assert job.found("-p") == job.expected(OTHER)
    messages = job.server.consume(f"{job.topic}-q")
    assert all(message.key() == str(json.loads(message.value())["a"]).encode() for message in messages)
    assert {headers["clash-query"] for headers in (dict(message.headers()) for message in messages)} == {b"q"}
    by_partition: dict[bytes, set[int]] = {}
    for message in messages:
        by_partition.setdefault(message.key(), set()).add(message.partition())
    assert all(len(partitions) == 1 for partitions in by_partition.values())


def test_a_query_that_is_added_at_run_time_goes_on_after_a_restart(job: Job) -> None:
    """Its sink is recorded; options are not, and a start without them is refused."""
    job.write(2)
    run = job.engine(q=(TEXT, None)).start()
    try:
        run.process_all_available()
        with pytest.raises(clash.SinkError, match="a topic does not exist"):
            run.add_query("late", TEXT, sink=job.sink("-none", create=None))
        with pytest.raises(clash.OptionError, match="the key is not a column of the query"):
            run.add_query("late", TEXT, sink=job.sink("-late", key="b"))
        run.add_query("late", TEXT, sink=job.sink("-late"))
        job.write(1)
        run.process_all_available()
        with pytest.raises(clash.OptionError, match="the results are not kept"):
            run.results("late")
    finally:
        run.stop()
    job.write(1)
    job.play(q=(TEXT, None))
    assert job.found("-late") == job.expected(since=2)


def test_options_are_neither_recorded_nor_shown(job: Job) -> None:
    job.write(1)
    options = {"client.id": "secret-word"}
    run = job.engine(q=(TEXT, None)).start()
    try:
        run.process_all_available()
        run.add_query("late", TEXT, sink=job.sink(options=options))
        job.write(1)
        run.process_all_available()
    finally:
        run.stop()
    for file in (job.root / "ck").rglob("*"):
        assert not file.is_file() or b"secret-word" not in file.read_bytes()
    with pytest.raises(clash.CheckpointError, match="the options of a query's sink are missing") as caught:
        job.engine(q=(TEXT, None)).start()
    assert "late" in caught.value.detail
    job.write(1)
    job.play(q=(TEXT, None), late=(TEXT, job.sink(options=options)))
    assert job.found() == job.expected(since=1)


def test_what_cannot_be_is_refused_before_it_runs(job: Job) -> None:
    job.write(1)
    with pytest.raises(clash.OptionError, match="the key is not a column of the query") as caught:
        job.engine(q=(TEXT, job.sink(key="X")))
    assert caught.value.hint == "did you mean x?"
    with pytest.raises(clash.OptionError, match="not possible in Avro"):
        job.engine(q=("SELECT R.a AS `a b` FROM R JOIN S ON R.a = S.a", job.sink(format="avro")))
    engine = job.engine(q=(TEXT, job.sink(create=None)))
    with pytest.raises(clash.SinkError, match="a topic does not exist"):
        engine.start()
    job.server.create(job.topic)
    assert engine.start(available_now=True).await_termination(60)
    assert job.found() == job.expected()


def test_a_changed_sink_takes_the_results_from_then_on(job: Job) -> None:
    job.write(2)
    job.play(q=(TEXT, job.sink("-a")))
    before = job.expected()
    job.write(1)
    job.play(q=(TEXT, job.sink("-b")))
    assert job.found("-a") == before
    assert job.found("-b") == job.expected() - before


def test_a_batch_that_spark_repeats_late_is_not_delivered_again(
    job: Job, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark has lost its commit of a batch, the next one was decided, and the results now go to another system."""
    job.write(2)
    job.play(q=(TEXT, job.sink()))
    before = job.expected()
    job.write(1)
    monkeypatch.setenv("CLASH_FAILPOINT", "after-record!raise")
    with pytest.raises(clash.ClashError, match="fail point"):
        job.play(q=(TEXT, job.sink()))
    monkeypatch.delenv("CLASH_FAILPOINT")
    for file in ("1", ".1.crc"):
        (job.root / "ck" / "spark" / "commits" / file).unlink(missing_ok=True)
    table = f"t{job.topic}"
    job.play(q=(TEXT, clash.sinks.Postgres(table, dsn=postgres_server.dsn, create=True)))
    assert job.found() == before
    assert Counter(postgres_server.query(f"SELECT a, x, y FROM {table}")) == job.expected() - before


def test_an_older_copy_of_the_checkpoint_is_refused(job: Job) -> None:
    job.write(1)
    job.play(q=(TEXT, job.sink()))
    shutil.copytree(job.root / "ck", job.root / "older")
    job.write(1)
    job.play(q=(TEXT, job.sink()))
    (job.root / "ck").rename(job.root / "newer")
    (job.root / "older").rename(job.root / "ck")
    with pytest.raises(clash.CheckpointError, match="batches that the checkpoint does not have"):
        job.engine(q=(TEXT, job.sink())).start()
    (job.root / "ck").rename(job.root / "older")
    (job.root / "newer").rename(job.root / "ck")
    job.write(1)
    job.play(q=(TEXT, job.sink()))
    assert job.found() == job.expected()


def test_a_run_that_waits_for_the_broker_can_be_stopped_and_goes_on_later(job: Job) -> None:
    job.write(1)
    run = job.engine(q=(TEXT, job.sink(wait="1 hour"))).start()
    run.process_all_available()
    job.server.kill()
    try:
        job.write(1)
        while not (job.root / "ck" / "clash" / "manifests" / "000000001.json").exists():
            time.sleep(0.05)
        run.stop()
        assert run.exception is None
    finally:
        job.server.start()
    job.write(1)
    job.play(q=(TEXT, job.sink()))
    assert job.found() == job.expected()
