"""A folder of results belongs to one query of one checkpoint, and its files to batches that are committed."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clash.coordinator.control import folder_owner
from clash.coordinator.control.folder_owner import FolderOwner
from clash.coordinator.control.job import JobSpec, QueryRequest, SinkSpec
from clash.coordinator.coordinator import Coordinator
from clash.errors import ClashError, OptionError, StateError
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash.sinks import Parquet
from clash.state.storage import Storage

STREAMS = tuple(Stream.of(name, {"a": "bigint"}) for name in "RS")
TEXT = "SELECT R.a FROM R JOIN S ON R.a = S.a"
ROWS = {"R": pa.table({"a": [1, 2]}), "S": pa.table({"a": [1, 3]})}


def job(*queries: tuple[str, Path]) -> JobSpec:
    requests = tuple(QueryRequest(name, TEXT, (), SinkSpec("parquet", str(folder))) for name, folder in queries)
    return JobSpec(STREAMS, requests, workers=1, epoch=1, adaptive=False)


def engine(checkpoint: Path, *queries: tuple[str, Path]) -> InProcessEngine:
    """A run of these queries, each with the folder that it writes to."""
    running = InProcessEngine(STREAMS, {"unused": TEXT}, workers=1)
    running.uri, running.job = str(checkpoint), job(*queries)
    running.coordinator = running._new_coordinator()
    return running


def rows(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))


def content(*folders: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(call: Callable[[], object], *words: str) -> ClashError:
    with pytest.raises(ClashError) as caught:
        call()
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, str(caught.value)
    return caught.value


def test_the_folder_of_another_checkpoint(tmp_path: Path) -> None:
    """Also while the other one has a batch in work, and nothing published yet: its staged files stay."""
    out = tmp_path / "out"
    first = engine(tmp_path / "first", ("q", out))
    spec = first.coordinator.begin(0, 0, 1)
    assert spec is not None
    staged = out / "_staging" / f"part-000000000-{first.coordinator.sources.identity}-{spec.attempt}-r1-w0-ff-0.parquet"
    staged.parent.mkdir()
    staged.write_bytes(b"a result in work")
    before = content(tmp_path)
    error = refused(lambda: engine(tmp_path / "second", ("q", out)), "belongs to another checkpoint", "query q", str(out))
    assert "another folder" in error.hint
    assert "remove that folder" in error.hint
    other = engine(tmp_path / "third", ("p", tmp_path / "other"))
    request = QueryRequest("q", TEXT, (), SinkSpec("parquet", str(out)))
    refused(lambda: other.coordinator.changes.add_query(request), "belongs to another checkpoint")
    after = content(tmp_path)
    assert {name: data for name, data in after.items() if "/third/" not in name and "/other/" not in name} == before


def test_a_folder_that_a_foreign_checkpoint_takes_while_a_query_waits(tmp_path: Path) -> None:
    """The query is given up at the boundary, and the run continues."""
    first, second = engine(tmp_path / "first", ("p", tmp_path / "p")), engine(tmp_path / "second", ("r", tmp_path / "r"))
    change = first.coordinator.changes.add_query(QueryRequest("q", TEXT, (), SinkSpec("parquet", str(tmp_path / "out"))))
    second.coordinator.changes.add_query(QueryRequest("q", TEXT, (), SinkSpec("parquet", str(tmp_path / "out"))))
    second.batch(ROWS)
    first.batch(ROWS)
    refused(lambda: change.wait(0), "belongs to another checkpoint")
    assert (rows(tmp_path / "p"), rows(tmp_path / "out")) == (1, 1)


def test_an_older_copy_is_refused_until_the_results_after_it_are_removed(tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    running = engine(checkpoint, ("q", out))
    running.batch(ROWS)
    shutil.copytree(checkpoint, tmp_path / "copy")
    running.batch(ROWS)
    running.batch(ROWS)
    total = rows(out)
    shutil.rmtree(checkpoint)
    shutil.copytree(tmp_path / "copy", checkpoint)
    before = content(tmp_path)
    error = refused(running.restart, "batches after the last one", "query q", str(out), "batches 1 to 2", "batch 0 is the last")
    assert f"clash checkpoint rollback {checkpoint}" in error.hint
    assert content(tmp_path) == before
    for file in out.glob("part-00000000[12]*"):
        file.unlink()
    running.restart()
    running.batch(ROWS)
    running.batch(ROWS)
    assert rows(out) == total


def test_results_under_the_checkpoint_that_are_newer_than_it(tmp_path: Path) -> None:
    running = InProcessEngine(STREAMS, {"q": TEXT}, uri=str(tmp_path / "c"), workers=1)
    running.batch(ROWS)
    copy = shutil.copytree(tmp_path / "c", tmp_path / "copy")
    running.batch(ROWS)
    shutil.copytree(tmp_path / "c" / "results", copy / "results", dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "c")
    copy.rename(tmp_path / "c")
    refused(running.restart, "batches after the last one", "query q", "batches 1 to 1")


def test_a_folder_that_vanished_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    out = tmp_path / "out"
    running = engine(tmp_path / "checkpoint", ("q", out))
    running.batch(ROWS)
    shutil.rmtree(out)
    error = refused(running.restart, "a result folder is missing", "query q", str(out))
    assert isinstance(error, StateError)
    assert "empty folder" in error.hint
    out.mkdir()
    with caplog.at_level(logging.WARNING, "clash"):
        running.restart()
    assert f"query q: {out} was emptied, results up to batch 0 are not in it" in caplog.text
    running.restart()
    running.batch(ROWS)
    assert rows(out) == 3


def test_a_folder_that_has_no_results_yet_need_not_exist(tmp_path: Path) -> None:
    running = engine(tmp_path / "checkpoint", ("q", tmp_path / "out"))
    shutil.rmtree(tmp_path / "out")
    running.restart()
    running.batch(ROWS)
    assert rows(tmp_path / "out") == 1


def test_a_query_that_moves_to_another_folder(tmp_path: Path) -> None:
    engine(tmp_path / "other", ("q", tmp_path / "taken"))
    running = engine(tmp_path / "checkpoint", ("q", tmp_path / "out"))
    running.batch(ROWS)
    refused(lambda: running.restart(job(("q", tmp_path / "taken"))), "belongs to another checkpoint")
    running.restart(job(("q", tmp_path / "moved")))
    running.batch(ROWS)
    assert (rows(tmp_path / "out"), rows(tmp_path / "moved")) == (1, 3)


@pytest.mark.parametrize("where", ["", "state", "deep/er"])
def test_a_sink_inside_the_checkpoint(tmp_path: Path, where: str) -> None:
    with pytest.raises(OptionError, match="overlap"):
        Coordinator(str(tmp_path / "c" / "clash"), job(("q", tmp_path / "c" / where)))
    with pytest.raises(OptionError, match="overlap"):
        Coordinator(str(tmp_path / "out" / "c" / "clash"), job(("q", tmp_path / "out")))
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["out/_staging", "_staging", "out/.hidden/", "/data/_x"])
def test_a_sink_that_readers_leave_out(path: str) -> None:
    with pytest.raises(OptionError, match="leave out"):
        Parquet(path)


@pytest.mark.parametrize("path", ["a\0b", "a\nb", "a\x7f"])
def test_a_sink_with_control_characters(path: str) -> None:
    with pytest.raises(OptionError, match="control characters"):
        Parquet(path)


def test_a_damaged_marker(tmp_path: Path) -> None:
    running = engine(tmp_path / "checkpoint", ("q", tmp_path / "out"))
    running.batch(ROWS)
    marker = tmp_path / "out" / "_clash.json"
    marker.write_bytes(marker.read_bytes().replace(b'"q"', b'"p"'))
    refused(running.restart, "a record is corrupt", str(marker))


def test_a_copied_folder_that_is_older_than_the_checkpoint_is_refused(tmp_path: Path) -> None:
    """As a copy of a running job may be: the folder was copied first."""
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    running = engine(checkpoint, ("q", out))
    running.batch(ROWS)
    shutil.copytree(out, tmp_path / "copy")
    running.batch({"R": ROWS["R"], "S": ROWS["S"].slice(0, 0)})
    running.batch({name: rows.slice(0, 0) for name, rows in ROWS.items()})
    shutil.rmtree(out)
    (tmp_path / "copy").rename(out)
    before = content(tmp_path)
    refused(running.restart, "a copy of a result folder is older", "query q", str(out), "1 of 2 files up to batch 2")
    assert content(tmp_path) == before
    (out / "_clash.json").unlink()
    running.restart()  # as the hint says


def test_files_that_a_consumer_takes_away_are_not_missed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    running = engine(tmp_path / "checkpoint", ("q", out))
    running.batch(ROWS)
    for file in out.glob("*.parquet"):
        file.unlink()
    running.restart()
    running.batch(ROWS)
    assert rows(out) == 3


def test_a_whole_copy_starts(tmp_path: Path) -> None:
    running = engine(tmp_path / "a" / "checkpoint", ("q", tmp_path / "a" / "out"))
    running.batch(ROWS)
    running.batch(ROWS)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "b").rename(tmp_path / "a")
    running.restart()
    running.batch(ROWS)
    running.restart()
    assert rows(tmp_path / "a" / "out") == 9


def test_two_runs_of_copies_of_one_checkpoint(tmp_path: Path) -> None:
    """The one that starts last has the folder; the other one fails before it publishes, so nothing is doubled."""
    out = tmp_path / "out"
    first = engine(tmp_path / "first", ("q", out))
    first.batch(ROWS)
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    second = engine(tmp_path / "second", ("q", out))
    refused(lambda: first.batch(ROWS), "another run has taken a result folder", "query q", str(out / "_clash.json"))
    second.batch(ROWS)
    assert rows(out) == 4


def test_a_marker_that_is_removed_while_a_run_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    running = engine(tmp_path / "checkpoint", ("q", tmp_path / "out"))
    running.batch(ROWS)
    (tmp_path / "out" / "_clash.json").unlink()
    with caplog.at_level(logging.WARNING, "clash"):
        running.batch(ROWS)
    assert "was emptied while the run goes on" in caplog.text
    running.restart()
    assert rows(tmp_path / "out") == 4


def test_folders_of_queries_that_have_ended_are_forgotten(tmp_path: Path) -> None:
    running = engine(tmp_path / "checkpoint", ("q", tmp_path / "out"))
    for number in range(20):
        sink = SinkSpec("parquet", str(tmp_path / f"out-{number}"))
        running.coordinator.changes.add_query(QueryRequest(f"q{number}", TEXT, (), sink))
        running.batch(ROWS)
        running.remove_query(f"q{number}")
        assert len(running.coordinator.folders._stamps) <= 3  # those of the batch before and of this one
    running.batch(ROWS)
    assert len(running.coordinator.folders._stamps) == 1


def test_a_folder_is_marked_once_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes do not look at the folders of queries that they do not concern: on an object store that takes long."""
    running = engine(tmp_path / "c", ("p", tmp_path / "p"), ("q", tmp_path / "q"))
    running.batch(ROWS)
    marked: list[str] = []
    mark = folder_owner.mark

    def counting(storage: Storage, folder: str, owner: FolderOwner, renew: bool = False) -> None:
        marked.append(str(owner.query))
        mark(storage, folder, owner, renew)

    monkeypatch.setattr(folder_owner, "mark", counting)
    for workers in (1, 3, 2):
        running.rescale(workers)
        running.batch(ROWS)
    running.add_query("r", TEXT)
    running.batch(ROWS)
    assert marked == ["r"]


def test_a_folder_without_results_that_another_query_takes_at_the_same_boundary(tmp_path: Path) -> None:
    running = engine(tmp_path / "c", ("p", tmp_path / "out"))
    running.batch({"R": ROWS["R"]})
    running.remove_query("p")
    running.coordinator.changes.add_query(QueryRequest("q", TEXT, (), SinkSpec("parquet", str(tmp_path / "out"))), history=False)
    running.batch(ROWS)
    running.restart(replace(running.job, queries=()))
    running.batch(ROWS)
    assert rows(tmp_path / "out") == 4
