"""One source for all file streams: the same files in the same batches, also where lives with and without it follow each other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clash
from clash.coordinator.checkpoint.source_registry import format_of
from clash.errors import CheckpointError
from clash.spark import query_launcher
from clash.state.storage import open_storage

from .files import COLUMNS, JOIN, counted, declare, expected, table, write


@pytest.mark.parametrize("lives", [(True, False, True), (False, True)])
def test_lives_with_and_without_it(
    spark: Any, checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lives: tuple[bool, ...]
) -> None:
    kept = query_launcher.file_streams
    for life, shared in enumerate(lives):
        monkeypatch.setattr(query_launcher, "file_streams", kept if shared else lambda _: None)
        write(tmp_path, range(life * 2, life * 2 + 3))
        engine = clash.Engine(spark, checkpoint, workers=2)
        declare(engine, spark, tmp_path)
        engine.query("q", JOIN)
        run = engine.start(available_now=True)
        assert (run._launcher.shared is not None) is shared
        assert run.await_termination(300)
        found = run.results("q").toArrow()
        assert counted(found) == expected(tmp_path, found.schema)
    entry = max((Path(checkpoint) / "spark" / "offsets").glob("[0-9]*"), key=lambda file: int(file.name)).read_text()
    assert ("clash.files" in entry) is lives[-1]


def declare_one_source(engine: Any, spark: Any, root: Path, streams: Sequence[str]) -> None:
    """The streams are filtered out of one DataFrame; each batch has one file."""
    columns = {name: "bigint" for names in COLUMNS.values() for name in names}
    schema = f"{', '.join(f'{name} {kind}' for name, kind in columns.items())}, ts timestamp, kind string"
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(root / "all"))
    for stream in streams:
        df = rows.where(rows.kind == stream).select(*COLUMNS[stream], "ts")
        engine.stream(stream, df, time="ts", window="500 milliseconds", lateness="1 second")


def write_one_source(root: Path, seconds: range) -> None:
    (root / "all").mkdir(exist_ok=True)
    for second in seconds:
        rows = [table(stream, second).append_column("kind", pa.array([stream] * 120)) for stream in COLUMNS]
        file = root / "all" / f"{second:03d}.parquet"
        pq.write_table(pa.concat_tables(rows, promote_options="default"), file)
        os.utime(file, (1_700_000_000 + second, 1_700_000_000 + second))
    write(root, seconds)  # for the expected results


@pytest.mark.parametrize("lives", [(True, False, True), (False, True)])
def test_streams_filtered_out_of_one_dataframe(
    spark: Any, checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lives: tuple[bool, ...]
) -> None:
    """Spark has one source and one folder for all of them; tasks read each file once."""
    kept = query_launcher.file_streams
    for life, shared in enumerate(lives):
        monkeypatch.setattr(query_launcher, "file_streams", kept if shared else lambda _: None)
        write_one_source(tmp_path, range(life * 2, life * 2 + 2))
        engine = clash.Engine(spark, checkpoint, workers=2)
        declare_one_source(engine, spark, tmp_path, list(COLUMNS))
        engine.query("q", JOIN)
        run = engine.start(available_now=True)
        assert (run._launcher.shared is not None) is shared
        assert run._launcher.plain is not None
        assert run.await_termination(300)
        assert run.progress["batch"] == life * 2 + 1
        found = run.results("q").toArrow()
        assert counted(found) == expected(tmp_path, found.schema)
    assert [folder.name for folder in (Path(checkpoint) / "spark" / "sources").iterdir()] == ["0"]


@pytest.mark.parametrize("shared", [True, False])
def test_a_stream_that_is_added_out_of_the_same_dataframe(
    spark: Any, checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """It has the rows of the batches from then on: the source has been read up to there."""
    if not shared:
        monkeypatch.setattr(query_launcher, "file_streams", lambda _: None)
    results = []
    for life, streams in enumerate((["R"], ["R", "S"])):
        write_one_source(tmp_path, range(life, life + 1))
        engine = clash.Engine(spark, checkpoint, workers=2)
        declare_one_source(engine, spark, tmp_path, streams)
        for stream in streams:
            engine.query(f"all_{stream}", f"SELECT {stream}.a, {stream}.ts FROM {stream}")
        run = engine.start(available_now=True)
        assert run.await_termination(300)
        results.append({stream: run.results(f"all_{stream}").count() for stream in streams})
    assert results == [{"R": 120}, {"R": 240, "S": 120}]


def test_spark_reads_filtered_streams_that_tasks_cannot(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    write_one_source(tmp_path, range(3))
    for file in (tmp_path / "all").iterdir():  # a type that only Spark converts
        rows, written = pq.read_table(file), file.stat().st_mtime
        pq.write_table(rows.set_column(0, "a", rows["a"].cast(pa.int32())), file)
        os.utime(file, (written, written))
    engine = clash.Engine(spark, checkpoint, workers=2)
    declare_one_source(engine, spark, tmp_path, list(COLUMNS))
    engine.query("q", JOIN)
    run = engine.start(available_now=True)
    assert run.await_termination(300)
    found = run.results("q").toArrow()
    assert counted(found) == expected(tmp_path, found.schema)


def test_backlog(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    write(tmp_path, range(3))
    engine = clash.Engine(spark, checkpoint, workers=2)
    declare(engine, spark, tmp_path)
    engine.query("q", JOIN)
    run = engine.start()
    run.process_all_available()
    backlog = run.progress["backlog"]
    run.stop()
    assert backlog
    assert all(counts == {"files": 0} for counts in backlog.values())


def run_to_end(spark: Any, checkpoint: str, root: Path, change: Any = lambda df: df) -> Any:
    engine = clash.Engine(spark, checkpoint, workers=2)
    declare(engine, spark, root, change)
    engine.query("q", JOIN)
    run = engine.start(available_now=True)
    assert run.await_termination(300)
    return run


def test_a_log_that_names_sources_keeps_them(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    """Spark goes on with the format that a log has, whatever the setting is now."""
    write(tmp_path, range(3))
    version = "spark.sql.streaming.offsetLog.formatVersion"
    spark.conf.set(version, "2")
    try:
        run_to_end(spark, checkpoint, tmp_path)
    finally:
        spark.conf.unset(version)
    write(tmp_path, range(3, 5))
    found = run_to_end(spark, checkpoint, tmp_path).results("q").toArrow()
    assert counted(found) == expected(tmp_path, found.schema)


def test_empty_folders_make_no_batch(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    for stream in COLUMNS:
        (tmp_path / stream).mkdir()
    assert run_to_end(spark, checkpoint, tmp_path).progress["batch"] == -1
    write(tmp_path, range(3))
    found = run_to_end(spark, checkpoint, tmp_path).results("q").toArrow()
    assert counted(found) == expected(tmp_path, found.schema)


def test_a_start_that_is_refused_for_its_sources_changes_nothing(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    write(tmp_path, range(3))
    (tmp_path / "more").mkdir()

    def with_second_source(df: Any) -> Any:
        return df.union(spark.readStream.schema(df.schema).parquet(str(tmp_path / "more"))) if "y" in df.columns else df

    run = run_to_end(spark, checkpoint, tmp_path, with_second_source)
    run._coordinator.sources.shapes = {}
    run._coordinator.sources.write(7)  # as an older version left it
    before = contents(checkpoint)
    with pytest.raises(CheckpointError, match="knows more sources"):
        run_to_end(spark, checkpoint, tmp_path)
    assert contents(checkpoint) == before
    assert format_of(open_storage(f"{checkpoint}/clash")) == 7


def contents(folder: str) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in Path(folder).rglob("*") if file.is_file() and file.name != "lock"}
