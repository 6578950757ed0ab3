"""`clash checkpoint rollback`: an older copy of a checkpoint over the result folders of today becomes one that can go on, exactly."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from clash.cli.main import app
from clash.coordinator.control.job import QueryRequest, SinkSpec
from clash.errors import CheckpointError
from clash.inprocess.engine import InProcessEngine
from clash.protocol.result_files import origin_of
from clash.state.checkpoint_lock import lock_checkpoint
from clash.state.storage import open_storage

from .jobs import OUTER, contents, expected, files, run, start


def clash(*arguments: object, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["checkpoint", *map(str, arguments)], input=answer, env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.fixture
def restored(tmp_path: Path) -> Path:
    """A job after batch 6, whose checkpoint was put back to what it was after batch 3, its result folder was not."""
    engine = run(start(tmp_path / "c", tmp_path / "out"), 3)
    shutil.copytree(tmp_path / "c", tmp_path / "copy")
    engine.coordinator.changes.add_query(QueryRequest("added", OUTER, (), SinkSpec("parquet", str(tmp_path / "added"))))
    run(engine, 6)
    for inner in ("results/inner", "late/R", "late/S"):  # some of them have results under the checkpoint, too
        shutil.copytree(tmp_path / "c/clash" / inner, tmp_path / "copy/clash" / inner, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "c")
    (tmp_path / "copy").rename(tmp_path / "c")
    for folder in ("out", "c/clash/results/inner"):
        for name in ("notes.txt", "part-000000009-0123456789ab-00000000-r1-w0-0.parquet", "part-000000009-00000000-r1-w0-0.parquet"):
            (tmp_path / folder / name).write_text("of somebody else")
    return tmp_path


def batches(folder: Path) -> set[int]:
    origins = [origin_of(path.name) for path in folder.rglob("*.parquet") if path.stat().st_size > 16]
    return {origin.batch for origin in origins if origin is not None}


def test_a_start_is_refused_and_goes_on_after_the_rollback(restored: Path) -> None:
    identity = start(restored / "x/c", restored / "x/out").coordinator.sources.identity
    foreign = restored / "out" / f"part-000000009-{identity}-00000000-r1-w0-0.parquet"
    foreign.write_text("of somebody else")
    (restored / "out" / "part-000000009-00000000-r1-w0-0.parquet").unlink()  # in a folder of ours, a name of format 6 is ours
    (restored / "c/clash/results/inner/part-000000009-00000000-r1-w0-0.parquet").unlink()
    with pytest.raises(CheckpointError, match="results of batches after the last one") as refused:
        start(restored / "c", restored / "out")
    assert f"clash checkpoint rollback {restored / 'c'}" in refused.value.hint
    before = files(restored)
    shown = clash("rollback", restored / "c", "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "batch 3 is the last" in shown.stdout
    for whose in ("query inner", "query outer", "late rows of stream R", "late rows of stream S"):
        assert whose in shown.stdout
    assert files(restored) == before
    assert clash("rollback", restored / "c", answer="n\n").exit_code == 1
    assert files(restored) == before
    done = clash("rollback", restored / "c", answer="y\n")
    assert done.exit_code == 0, done.output
    gone = before.keys() - files(restored).keys()
    assert gone
    assert all((origin_of(Path(path).name) or (0,))[0] > 3 for path in gone)
    assert foreign.exists()
    assert batches(restored / "added") == {4, 5, 6}, "the checkpoint does not know the query"
    given = clash("rollback", restored / "c", "--results", restored / "added", "--yes")
    assert given.exit_code == 0, given.output
    assert batches(restored / "added") == set()
    for path in restored.rglob("*.parquet"):
        if path.stat().st_size <= 16:
            path.unlink()
    assert contents(run(start(restored / "c", restored / "out"), 6)) == expected(restored / "whole", 6)


def test_a_second_rollback_finds_nothing(restored: Path) -> None:
    assert clash("rollback", restored / "c", "-y").exit_code == 0
    again = clash("rollback", restored / "c", "-y")
    assert (again.exit_code, "no results of later batches" in again.stdout) == (0, True)


def test_a_checkpoint_in_use_is_refused(restored: Path) -> None:
    lock = lock_checkpoint(open_storage(str(restored / "c/clash")))
    before = files(restored)
    refused = clash("rollback", restored / "c", "--yes")
    assert refused.exit_code == 2
    assert "another run has this checkpoint" in refused.stderr
    assert files(restored) == before
    lock.release()


def test_a_damaged_checkpoint_is_refused(restored: Path) -> None:
    """Its last batch is not known: everything would count as later."""
    for path in (restored / "c/clash/manifests").iterdir():
        path.unlink()
    before = files(restored)
    refused = clash("rollback", restored / "c", "--yes")
    assert refused.exit_code == 2
    assert "a file of the state is missing" in refused.stderr
    assert files(restored) == before


def test_a_folder_without_a_checkpoint_stays_as_it_is(tmp_path: Path) -> None:
    refused = clash("rollback", tmp_path / "none", "--yes")
    assert refused.exit_code == 2
    assert "there is no checkpoint in this folder" in refused.stderr
    assert not (tmp_path / "none").exists()


def test_a_checkpoint_whose_results_are_its_own_needs_none(tmp_path: Path) -> None:
    engine: InProcessEngine = run(start(tmp_path / "c", tmp_path / "out"), 2)
    del engine
    before = files(tmp_path)
    assert clash("rollback", tmp_path / "c", "--yes").exit_code == 0
    assert files(tmp_path) == before
