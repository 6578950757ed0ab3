"""What plans say of sources; and programs whose sources are arranged otherwise than in the checkpoint, which are refused by name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource
from tests.servers import KafkaServer, get

import clash
from clash.coordinator.checkpoint.source_registry import SourceRegistry
from clash.coordinator.checkpoint.source_shape import SourceShape
from clash.errors import CheckpointError
from clash.spark.source_shapes import source_shapes, topics_of
from clash.state.storage import open_storage

from .kafka_program import TOPICS
from .test_file_streams import contents

SCHEMA = "stream string, a bigint"
EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"  # all sources have names
LOG_VERSION = "spark.sql.streaming.offsetLog.formatVersion"
Frames = Mapping[str, Any]


class PythonSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "python_numbers"

    def schema(self) -> str:
        return "a bigint"


class Files:
    """A folder of JSON files per stream, and one with the rows of all of them."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root = spark, root

    def write(self, number: int) -> None:
        for folder, streams in (("R", "R"), ("S", "S"), ("T", "T"), ("all", "RST")):
            (self.root / folder).mkdir(exist_ok=True)
            rows = [json.dumps({"stream": stream, "a": number * 10 + row}) for stream in streams for row in range(3)]
            (self.root / folder / f"{number}.json").write_text("\n".join(rows))

    def read(self, folder: str, format: str = "json", reader: Any = None) -> Any:
        return (reader or self.spark.readStream).schema(SCHEMA).format(format).load(str(self.root / folder))

    def own(self, streams: str = "RST") -> Frames:
        return {stream: self.read(stream) for stream in streams}

    def shared(self, streams: str = "RST") -> Frames:
        rows = self.read("all")
        return {stream: rows.where(rows.stream == stream) for stream in streams}


@pytest.fixture
def files(spark: Any, tmp_path: Path) -> Files:  # type: ignore[override]
    made = Files(spark, tmp_path)
    made.write(0)
    return made


def run_to_end(spark: Any, checkpoint: str, frames: Frames) -> dict[str, int]:
    """The number of results of each stream."""
    engine = clash.Engine(spark, checkpoint, workers=1)
    for stream, frame in frames.items():
        engine.stream(stream, frame)
        engine.query(f"all_{stream}", f"SELECT {stream}.a FROM {stream}")
    run = engine.start(available_now=True)
    assert run.await_termination(300)
    return {stream: run.results(f"all_{stream}").count() for stream in frames}


def refused(spark: Any, checkpoint: str, frames: Frames) -> CheckpointError:
    before = contents(checkpoint)
    with pytest.raises(CheckpointError) as error:
        run_to_end(spark, checkpoint, frames)
    assert contents(checkpoint) == before
    return error.value


# ---- plans -----------------------------------------------------------------------------------------------------


def test_what_plans_say(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(PythonSource)
    read = spark.readStream.schema(SCHEMA).option("password", "very secret")
    rows = read.parquet(f"file://{tmp_path}")
    by_class = read.format("org.apache.spark.sql.execution.datasources.v2.json.JsonDataSourceV2").load(str(tmp_path))
    rate = spark.readStream.format("RATE").load()
    found = source_shapes({
        "both": rows.where("a > 1").select("a").union(rows.select("a")),
        "class": by_class,
        "rate": rate.join(spark.range(3), rate.value == 1),
        "python": spark.readStream.format("python_numbers").load(),
        "again": rows.union(by_class),
    }, {})  # fmt: skip
    files, json_files = SourceShape(0, "parquet", location=str(tmp_path)), SourceShape(1, "json", location=str(tmp_path))
    assert found == {
        "both": (files, files),
        "class": (json_files,),
        "rate": (SourceShape(2, "rate"),),
        "python": (SourceShape(3, "python_numbers"),),
        "again": (files, json_files),
    }


@pytest.mark.parametrize(
    ("subscription", "value", "topics"),
    [
        ("subscribe", "b, a,,b", ("a", "b")),
        ("subscribepattern", "a,b.*", ("a,b.*",)),
        ("assign", '{"b": [0], "a": [1, 0]}', ("a-0", "a-1", "b-0")),
        ("assign", "[3]", ("[3]",)),
    ],
)
def test_topics(subscription: str, value: str, topics: tuple[str, ...]) -> None:
    assert topics_of(subscription, value) == topics


# ---- starts ----------------------------------------------------------------------------------------------------


def test_several_sources_that_become_one(spark: Any, checkpoint: str, files: Files) -> None:
    """Spark has as many offsets, and would read most of the rows again."""
    assert run_to_end(spark, checkpoint, files.own()) == {"R": 3, "S": 3, "T": 3}
    error = refused(spark, checkpoint, files.shared())
    assert error.what == "the sources of a stream are not those of the checkpoint"
    assert error.detail == (
        f"stream S has read json from {files.root}/S (source 1); "
        f"now it is to read json from {files.root}/all (source 0, the source of R, T too)"
    )
    files.write(1)
    assert run_to_end(spark, checkpoint, files.own()) == {"R": 6, "S": 6, "T": 6}


def test_one_source_that_becomes_several(spark: Any, checkpoint: str, files: Files) -> None:
    assert run_to_end(spark, checkpoint, files.shared()) == {"R": 3, "S": 3, "T": 3}
    assert refused(spark, checkpoint, files.own()).detail.startswith("stream S has read")
    files.write(1)
    assert run_to_end(spark, checkpoint, files.shared()) == {"R": 6, "S": 6, "T": 6}


@pytest.mark.parametrize(
    ("stream", "change"),
    [
        ("R", lambda files: files.own() | {"R": files.read("R", "csv")}),
        ("R", lambda files: files.own() | {"R": files.read("R").union(files.read("all"))}),
        ("S", lambda files: files.own() | {"S": files.read("S").union(files.read("all"))}),
        ("T", lambda files: files.own() | {"T": files.spark.readStream.format("rate").load().selectExpr("value AS a")}),
    ],
    ids=["another format", "a source more", "a source more in the middle", "another provider"],
)
def test_other_sources(spark: Any, checkpoint: str, files: Files, stream: str, change: Callable[[Files], Frames]) -> None:
    run_to_end(spark, checkpoint, files.own())
    error = refused(spark, checkpoint, change(files))
    assert error.what == "the sources of a stream are not those of the checkpoint"
    assert error.detail.startswith(f"stream {stream} has read json")


def test_two_sources_that_become_one(spark: Any, checkpoint: str, files: Files) -> None:
    two = {**files.own("R"), "S": files.read("S").union(files.read("T"))}
    assert run_to_end(spark, checkpoint, two) == {"R": 3, "S": 6}
    assert refused(spark, checkpoint, files.own("RS")).detail.startswith("stream S has read json")
    same = files.read("S")
    assert refused(spark, checkpoint, {**files.own("R"), "S": same.union(same)}).detail.startswith("stream S has read json")
    assert run_to_end(spark, checkpoint, two) == {"R": 3, "S": 6}


def test_changes_that_are_accepted(spark: Any, checkpoint: str, files: Files) -> None:
    """The order in the program, columns, filters and options; new streams, of a new source or of one that is read already; and a folder
    that has moved."""
    run_to_end(spark, checkpoint, files.own("RS"))
    files.write(1)
    moved = spark.readStream.schema(SCHEMA).option("fileNameOnly", True).option("maxFilesPerTrigger", 1)
    (files.root / "R").rename(files.root / "moved")
    r = moved.json(str(files.root / "moved" / "*"))  # without a pattern Spark looks for the old files, unless all are plain Parquet files
    frames = {"T": files.read("T"), "S": files.read("S").where("a <> 10").selectExpr("a"), "R": r, "Q": r.where("stream = 'R'")}
    assert run_to_end(spark, checkpoint, frames) == {"R": 6, "S": 5, "T": 6, "Q": 3}
    frames = {**frames, "Q": frames["Q"].union(files.read("all"))}  # behind all others
    assert run_to_end(spark, checkpoint, frames) == {"R": 6, "S": 5, "T": 6, "Q": 21}


def test_a_stream_that_is_added_to_a_run_is_recorded(spark: Any, checkpoint: str, files: Files) -> None:
    frames = files.own()
    engine = clash.Engine(spark, checkpoint, workers=1)
    engine.stream("R", frames["R"])
    engine.query("all_R", "SELECT R.a FROM R")
    run = engine.start()
    try:
        run.process_all_available()
        for stream in "ST":
            run.stream(stream, frames[stream])
            run.add_query(f"all_{stream}", f"SELECT {stream}.a FROM {stream}").wait(60)
        run.process_all_available()
    finally:
        run.stop()
    assert refused(spark, checkpoint, files.shared()).detail.startswith("stream S has read json")
    assert run_to_end(spark, checkpoint, frames) == {"R": 3, "S": 3, "T": 3}


def test_a_checkpoint_without_a_record_gets_one(spark: Any, checkpoint: str, files: Files) -> None:
    """As an earlier version left it. Too few sources are refused all the same, and nothing changes then."""
    run_to_end(spark, checkpoint, files.own())
    SourceRegistry(open_storage(f"{checkpoint}/clash"), "UTC").record_shapes({})
    error = refused(spark, checkpoint, files.shared())
    assert error.what == "the checkpoint knows more sources than the streams have now"
    assert error.detail == f"{checkpoint}/spark/sources has 3, the streams of this start 1"
    files.write(1)
    assert run_to_end(spark, checkpoint, files.own()) == {"R": 6, "S": 6, "T": 6}
    assert refused(spark, checkpoint, files.shared()).detail.startswith("stream S")


def test_before_the_first_batch(spark: Any, checkpoint: str, files: Files) -> None:
    """There are no offsets yet, and sources may change, unless one has recorded where it began: others must not begin there."""
    (files.root / "empty").mkdir()
    assert run_to_end(spark, checkpoint, {"R": files.read("empty", "csv")}) == {"R": 0}
    assert run_to_end(spark, checkpoint, {"R": files.read("empty")}) == {"R": 0}
    beginning = Path(checkpoint) / "spark" / "sources" / "0" / "0"
    beginning.parent.mkdir(parents=True, exist_ok=True)
    beginning.write_text('v1\n{"topic":{"0":7}}')
    assert refused(spark, checkpoint, {"R": files.read("R", "csv")}).detail.startswith("stream R has read json")


def test_named_sources_are_known_by_name(spark: Any, checkpoint: str, files: Files) -> None:
    spark.conf.set(EVOLUTION, "true")
    try:

        def named(folder: str, name: str) -> Any:
            return files.read(folder, reader=spark.readStream.name(name))

        with pytest.raises(clash.OptionError, match="a named source needs an offset log that has names"):
            run_to_end(spark, checkpoint, {"R": named("R", "first")})
        assert not contents(checkpoint)
        spark.conf.set(LOG_VERSION, "2")
        two = {"R": named("R", "first").union(named("S", "second")), "S": named("T", "third")}
        assert run_to_end(spark, checkpoint, two) == {"R": 6, "S": 3}
        error = refused(spark, checkpoint, {**two, "S": named("T", "other")})
        assert "(source third)" in error.detail
        files.write(1)
        swapped = {"S": named("T", "third"), "R": named("S", "second").union(named("R", "first"))}
        assert run_to_end(spark, checkpoint, swapped) == {"R": 12, "S": 6}
    finally:
        spark.conf.unset(EVOLUTION)
        spark.conf.unset(LOG_VERSION)


# ---- Kafka -----------------------------------------------------------------------------------------------------


def test_kafka_sources_that_are_rearranged(kafka_server: KafkaServer, tmp_path: Path) -> None:
    """No topic is read again, and none is lost: other arrangements of the same topics are refused, and the first one goes on. Topics may
    be added, and brokers may move."""
    kafka_server.create("u", *TOPICS)
    for topic in TOPICS:
        kafka_server.produce(topic, map(str, range(5)))

    def lives(checkpoint: str, *arrangements: str) -> list[dict[str, Any]]:
        command = [sys.executable, "-m", "tests.spark.kafka_program", str(get("kafka-connector")), kafka_server.servers]
        done = subprocess.run([*command, str(tmp_path / checkpoint), *arrangements], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return [json.loads(line) for line in done.stdout.splitlines()]

    every = dict.fromkeys(TOPICS, 5)
    own, refused, again = lives("own", "own", "shared", "own")
    assert own == again == every
    assert refused["what"] == "the sources of a stream are not those of the checkpoint"
    servers = kafka_server.servers
    assert refused["detail"] == (
        f"stream s has read kafka subscribe s from {servers} (source 1); "
        f"now it is to read kafka subscribe r, s, t from {servers} (source 0, the source of r, t too)"
    )
    shared, own, pattern, moved, more, fewer = lives("shared", "shared", "own", "pattern", "other servers", "more topics", "shared")
    assert shared == moved == more == every
    assert own["detail"].endswith(f"now it is to read kafka subscribe r from {servers} (source 0)")
    assert "now it is to read kafka subscribepattern .*" in pattern["detail"]
    assert "has read kafka subscribe r, s, t, u" in fewer["detail"]
    assert "secret" not in "".join(file.read_text(errors="replace") for file in tmp_path.rglob("clash/job.json"))
