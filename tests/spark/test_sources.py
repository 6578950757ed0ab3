"""One source more over the checkpoint of a plain Spark query: no row is lost or read twice, and batch numbers go on."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from clash.errors import CheckpointError
from clash.spark.offset_log import BatchGate, BoundaryError, count_sources, extend_offset_log, halt
from clash.state.storage import open_storage

Rows = list[tuple[str, int]]


class Files:
    """Streams of JSON files, one per batch, and a Spark query over some of them that tells what it has read."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root = spark, root
        self.read: list[tuple[int, Rows]] = []
        self.gate = BatchGate()
        self.before: Callable[[int], None] = lambda batch: None

    def put(self, stream: str, file: int) -> None:
        (self.root / stream).mkdir(exist_ok=True)
        (self.root / stream / f"{file:03d}.json").write_text("\n".join(json.dumps({"a": file * 10 + row}) for row in range(3)))

    def source(self, stream: str) -> Any:
        from pyspark.sql import functions as F  # noqa: N812

        frame = self.spark.readStream.schema("a bigint").option("maxFilesPerTrigger", 1).json(str(self.root / stream))
        return frame.select(F.lit(stream).alias("stream"), "a")

    def union(self, streams: str) -> Any:
        first, *others = map(self.source, streams)
        for other in others:
            first = first.union(other)
        return first

    def start(self, df: Any, **trigger: Any) -> Any:
        def batch(rows: Any, number: int) -> None:
            with self.gate.batch():
                self.before(number)
                self.read.append((number, [tuple(row) for row in rows.collect()]))

        writer = df.writeStream.foreachBatch(batch).option("checkpointLocation", str(self.root / "spark"))
        return writer.trigger(**trigger).start() if trigger else writer.start()

    def run(self, df: Any) -> None:
        self.start(df, availableNow=True).awaitTermination(300)

    @property
    def storage(self) -> Any:
        return open_storage(str(self.root / "spark"))

    def check(self, files: dict[str, int]) -> None:
        """Every row of every file once."""
        found = Counter(row for _, rows in self.read for row in rows)
        assert found == Counter((stream, file * 10 + row) for stream, upto in files.items() for file in range(upto) for row in range(3))
        assert [number for number, _ in self.read] == list(range(len(self.read)))


@pytest.fixture
def files(spark: Any, tmp_path: Path) -> Files:
    made = Files(spark, tmp_path)
    for stream in "RST":
        for file in range(3):
            made.put(stream, file)
    return made


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_source_more(spark: Any, files: Files, version: str) -> None:
    """All batches are committed; T comes from its beginning. Spark refuses the checkpoint as it is, unless it names sources."""
    spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", version)
    try:
        files.run(files.union("RS"))
        df = files.union("RST")
        assert count_sources(df) == 3
        if version == "1":
            with pytest.raises(Exception, match=r"There are \[2\] sources"):
                files.run(df)
        assert extend_offset_log(files.storage, 3) is (version == "1")
        assert not extend_offset_log(files.storage, 3)
        files.put("R", 3)
        files.run(df)
    finally:
        spark.conf.unset("spark.sql.streaming.offsetLog.formatVersion")
    files.check({"R": 4, "S": 3, "T": 3})


def test_a_planned_batch_is_run_as_it_was_planned(files: Files) -> None:
    """Also if another crash comes between the two entries of the log that Spark reads."""
    files.before = lambda batch: files.gate.close() if batch == 1 else None
    with pytest.raises(Exception, match="not a failure"):
        files.run(files.union("RS"))
    planned = (files.root / "spark" / "offsets" / "2").read_bytes()
    files.put("R", 3)
    extend_offset_log(files.storage, 3)
    patched = (files.root / "spark" / "offsets" / "2").read_bytes()
    assert patched == planned.rstrip(b"\n") + b"\n-"
    (files.root / "spark" / "offsets" / "2").write_bytes(planned)
    assert extend_offset_log(files.storage, 3)
    files.gate.open()
    files.run(files.union("RST"))
    files.check({"R": 4, "S": 3, "T": 3})
    assert Counter(stream for stream, _ in files.read[2][1]) == {"R": 3, "S": 3}


def test_checksums_and_shared_sources(files: Files) -> None:
    """Hadoop's own local file system keeps checksums; a second use of a source that is read already starts where that is."""
    r = files.source("R")
    files.run(r)
    for batch in range(3):
        (files.root / "spark" / "offsets" / f".{batch}.crc").touch()
    df = r.union(r.selectExpr("'Q' AS stream", "a"))
    assert count_sources(df) == 2
    assert extend_offset_log(files.storage, 2)
    assert sorted(file.name for file in (files.root / "spark" / "offsets").glob(".*.crc")) == [".0.crc"]
    files.put("R", 3)
    files.run(df)
    found = Counter(stream for _, rows in files.read for stream, _ in rows)
    assert found == {"R": 12, "Q": 3}
    with pytest.raises(CheckpointError, match="more sources") as caught:
        extend_offset_log(files.storage, 1)
    assert caught.value.hint


def test_an_empty_checkpoint_needs_nothing(files: Files) -> None:
    assert not extend_offset_log(files.storage, 3)
    files.run(files.union("RST"))
    files.check({"R": 3, "S": 3, "T": 3})


@pytest.mark.parametrize("trigger", [{}, {"processingTime": "1 hour"}, {"availableNow": True}])
def test_halted_between_two_batches(files: Files, trigger: dict[str, Any]) -> None:
    """Asked for in the middle of a batch, which ends as if nothing had happened."""
    inside, go_on = Event(), Event()

    def wait(batch: int) -> None:
        if batch == 0:
            inside.set()
            assert go_on.wait(100)

    files.before = wait
    query = files.start(files.union("RS"), **trigger)
    assert inside.wait(100)
    thread = Thread(target=halt, args=(query, files.gate))
    thread.start()
    time.sleep(0.1)
    assert query.isActive
    go_on.set()
    thread.join(100)
    assert not query.isActive
    assert [batch for batch, _ in files.read] == [0]
    assert (files.root / "spark" / "commits" / "0").exists()
    files.gate.open()
    extend_offset_log(files.storage, 3)
    files.run(files.union("RST"))
    files.check({"R": 3, "S": 3, "T": 3})


@pytest.mark.parametrize("trigger", [{}, {"processingTime": "1 hour"}])
def test_halted_while_there_is_nothing_to_read(files: Files, trigger: dict[str, Any]) -> None:
    files.run(files.union("RS"))
    query = files.start(files.union("RS"), **trigger)
    halt(query, files.gate)
    assert not query.isActive
    assert query.exception() is None
    with pytest.raises(BoundaryError), files.gate.batch():
        pass
