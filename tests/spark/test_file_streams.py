"""One source for all file streams: the same files in the same batches, also where lives with and without it follow each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clash
from clash.coordinator.checkpoint.source_registry import format_of
from clash.errors import CheckpointError
from clash.spark import query_launcher
from clash.state.storage import open_storage

from .files import COLUMNS, JOIN, counted, declare, expected, write


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


def test_streams_out_of_one_dataframe_keep_their_source(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    """Spark has one source for both, and numbers its folders by it."""
    write(tmp_path, range(2))
    df = spark.readStream.schema("a bigint, x bigint, ts timestamp").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "R"))
    engine = clash.Engine(spark, checkpoint, workers=2)
    engine.stream("A", df)
    engine.stream("B", df)
    engine.query("q", "SELECT A.x FROM A JOIN B ON A.a = B.a")
    run = engine.start(available_now=True)
    assert run._launcher.shared is None
    assert run.await_termination(300)


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
    run._coordinator.sources.write(7)  # as an older version left it
    before = contents(checkpoint)
    with pytest.raises(CheckpointError, match="knows more sources"):
        run_to_end(spark, checkpoint, tmp_path)
    assert contents(checkpoint) == before
    assert format_of(open_storage(f"{checkpoint}/clash")) == 7


def contents(folder: str) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in Path(folder).rglob("*") if file.is_file() and file.name != "lock"}
