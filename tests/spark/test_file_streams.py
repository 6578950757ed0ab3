"""One source for all file streams: the same files in the same batches, also where lives with and without it follow each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clash
from clash.spark import query_launcher

from .files import JOIN, counted, declare, expected, write


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
