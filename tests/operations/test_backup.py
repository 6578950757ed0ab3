"""`clash checkpoint backup`, `verify` and `restore`: whatever happens, what is restored goes on exactly."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner, Result

from clash.cli.main import app
from clash.coordinator.control.job import QueryRequest, SinkSpec
from clash.errors import CheckpointError, ClashError, OptionError, StateError
from clash.inprocess.engine import InProcessEngine
from clash.operations import backup as backups
from clash.operations import restore as restoring
from clash.operations.backup import take_backup
from clash.operations.backup_record import Snapshot, read_snapshot, snapshots
from clash.operations.pinned_checkpoint import of_one_batch
from clash.operations.restore import restore
from clash.operations.restored_folder import FolderPlan
from clash.operations.verify import verify_checkpoint, verify_snapshot
from clash.protocol.result_files import origin_of
from clash.state.checkpoint_lock import lock_checkpoint
from clash.state.storage import open_storage

from .jobs import OUTER, contents, copy_slowly, expected, files, program, run, start


def clash(*arguments: object, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["checkpoint", *map(str, arguments)], input=answer, env={"COLUMNS": "200", "NO_COLOR": "1"})


def job(folder: Path) -> InProcessEngine:
    return start(folder / "c", folder / "out")


def back_up(folder: Path) -> Snapshot:
    return take_backup(str(folder / "c"), folder / "b", "0")[0]


@contextmanager
def running(engine: InProcessEngine, until: int) -> Iterator[None]:
    """The engine runs in another thread meanwhile."""
    failures: list[BaseException] = []

    def go() -> None:
        try:
            run(engine, until)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert failures == []


def inodes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_ino for path in folder.rglob("*") if path.is_file()}


def test_snapshots_of_a_running_job_go_on_exactly(tmp_path: Path) -> None:
    engine = run(job(tmp_path), 0)
    taken = []
    with running(engine, 24):
        while engine.coordinator.last < 23:
            taken.append(back_up(tmp_path))
    assert len({snapshot.record.batch for snapshot in taken}) > 3
    whole = expected(tmp_path / "whole", 24)
    assert contents(engine) == whole
    for snapshot in Random(1).sample(taken, min(len(taken), 5)):
        shutil.rmtree(tmp_path / "c")
        restored = restore(snapshot, replaces=True)
        assert restored.batch == snapshot.record.batch
        verify_checkpoint(str(tmp_path / "c"))
        again = job(tmp_path)
        assert again.coordinator.last == snapshot.record.batch
        assert contents(run(again, 24)) == whole


def test_a_job_that_changes_meanwhile(tmp_path: Path) -> None:
    """Generations come and go, a query is added with a folder of its own and removed, one writes elsewhere."""
    engine = run(job(tmp_path), 1)
    added = QueryRequest("added", OUTER, (), SinkSpec("parquet", str(tmp_path / "added")))
    taken = []
    for batch in range(2, 14):
        if batch == 4:
            engine.coordinator.changes.add_query(added)
        if batch == 6:
            engine.rescale(3)
        if batch == 9:
            engine.remove_query("added")
        with running(engine, batch):
            taken.append(back_up(tmp_path))
    whole = contents(engine)
    assert whole == expected(tmp_path / "whole", 13)
    assert [folder.query for folder in taken[-1].record.folders] == ["outer", "added"]
    of_added = files(tmp_path / "added")
    for snapshot in taken[::3]:
        restore(snapshot, replaces=True)
        again = job(tmp_path)
        assert contents(run(again, 13)) == whole
        if snapshot.record.batch > 8:
            assert files(tmp_path / "added").items() >= {k: v for k, v in of_added.items() if k.endswith(".parquet")}.items()


def test_an_incremental_snapshot_shares_files_with_the_last_one_and_none_with_the_job(tmp_path: Path) -> None:
    engine = run(job(tmp_path), 5)
    first, copied = take_backup(str(tmp_path / "c"), tmp_path / "b", "0")
    assert (copied.linked_files, copied.files) == (0, len(first.record.files))
    same, linked = take_backup(str(tmp_path / "c"), tmp_path / "b", "0")
    assert linked.files == 0
    assert linked.linked_files == len(same.record.files)
    run(engine, 6)
    next_one, changed = take_backup(str(tmp_path / "c"), tmp_path / "b", "0")
    assert changed.linked_files > changed.files > 0
    shared = set(inodes(first.path).values()) & set(inodes(next_one.path).values())
    assert shared
    live = {*inodes(tmp_path / "c").values(), *inodes(tmp_path / "out").values()}
    assert not live & {*inodes(tmp_path / "b").values()}
    assert changed.bytes + changed.linked_bytes == sum(file.bytes for file in next_one.record.files.values())
    shutil.rmtree(first.path)
    assert verify_snapshot(next_one).batch == 6


def test_where_files_cannot_have_two_names_they_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(job(tmp_path), 3)
    back_up(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(18, "another file system")

    monkeypatch.setattr(os, "link", refuse)
    snapshot, copied = take_backup(str(tmp_path / "c"), tmp_path / "b", "0")
    assert (copied.linked_files, copied.files) == (0, len(snapshot.record.files))
    verify_snapshot(snapshot)


def test_what_is_committed_and_not_published_is_in_the_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = run(job(tmp_path), 2)
    monkeypatch.setenv("CLASH_FAILPOINT", "after-manifest!raise")
    with pytest.raises(RuntimeError):
        run(engine, 3)
    monkeypatch.delenv("CLASH_FAILPOINT")
    snapshot = back_up(tmp_path)
    assert snapshot.record.batch == 3
    shutil.rmtree(tmp_path / "c")
    shutil.rmtree(tmp_path / "out")
    restore(snapshot)
    assert contents(run(job(tmp_path), 6)) == expected(tmp_path / "whole", 6)


def test_a_lost_result_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = run(job(tmp_path), 2)
    monkeypatch.setenv("CLASH_FAILPOINT", "after-manifest!raise")
    with pytest.raises(RuntimeError):
        run(engine, 3)
    shutil.rmtree(tmp_path / "out/_staging")
    with pytest.raises(StateError, match="a file of committed results is lost"):
        back_up(tmp_path)


def test_files_for_a_function_are_held(tmp_path: Path) -> None:
    """The job deletes them when it decides the next batch; Spark's commit of the last one is not in the snapshot yet."""
    program_ = program(tmp_path / "out")
    program_ = replace(program_, queries=(*program_.queries, QueryRequest("f", OUTER, (), SinkSpec("foreach"))))
    engine = run(start(tmp_path / "c", tmp_path / "out", program_), 2)
    (tmp_path / "c/spark/commits/2").unlink()
    pinned = of_one_batch(str(tmp_path / "c"), backups._verified)
    files_of_last = engine.coordinator.publish(2).results["f"]
    assert files_of_last
    run(engine, 3)
    (tmp_path / "b").mkdir()
    snapshot, _ = backups._write(pinned, tmp_path / "b", "0")
    restore(snapshot, replaces=True)
    restored = start(tmp_path / "c", tmp_path / "out", program_)
    assert restored.coordinator.publish(2).results["f"] == files_of_last


def test_results_that_a_reader_has_taken_away_stay_away(tmp_path: Path) -> None:
    run(job(tmp_path), 4)
    for path in [*(tmp_path / "out").glob("part-*"), *(tmp_path / "c/clash/results/inner").glob("part-*")]:
        path.unlink()
    snapshot = back_up(tmp_path)
    shutil.rmtree(tmp_path / "out")
    restore(snapshot, replaces=True)
    engine = run(job(tmp_path), 6)
    whole, before = expected(tmp_path / "whole", 6), expected(tmp_path / "before", 4)
    for query in ("inner", "outer"):
        rest = list(whole[query])
        for row in before[query]:
            rest.remove(row)
        assert contents(engine)[query] == rest


@pytest.mark.parametrize("seed", range(6))
def test_a_killed_backup_leaves_only_what_the_next_one_removes(tmp_path: Path, seed: int) -> None:
    run(job(tmp_path), 3)
    before = back_up(tmp_path)
    at = Random(seed).randrange(len(before.record.files))
    job_files = files(tmp_path / "c") | files(tmp_path / "out")
    child = os.fork()
    if child == 0:  # a process that is killed when it has written some files
        count = iter(range(1000))
        linked = backups.link_file
        backups.link_file = lambda *paths: linked(*paths) if next(count) < at else os._exit(9)  # type: ignore[assignment]
        back_up(tmp_path)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert [snapshot.path for snapshot in snapshots(tmp_path / "b")] == [before.path]
    assert [path.name for path in (tmp_path / "b").iterdir() if path.name.startswith(".incomplete-")]
    verify_snapshot(before)
    assert files(tmp_path / "c") | files(tmp_path / "out") == job_files
    after = back_up(tmp_path)
    assert {path.name for path in (tmp_path / "b").iterdir()} == {".lock", before.path.name, after.path.name}


def test_a_full_disk_ends_a_backup_without_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(job(tmp_path), 3)

    def refuse(path: Path, content: memoryview) -> int:
        if "clash/state" in str(path):
            raise StateError("a file of the state cannot be written", str(path), "free some space")
        return written(path, content)

    written = backups.write_file
    monkeypatch.setattr(backups, "write_file", refuse)
    with pytest.raises(StateError, match="cannot be written"):
        back_up(tmp_path)
    assert [path.name for path in (tmp_path / "b").iterdir()] == [".lock"]


@pytest.mark.parametrize("seed", range(16))
def test_a_damaged_snapshot_is_found(tmp_path: Path, seed: int) -> None:
    run(job(tmp_path), 3)
    snapshot = back_up(tmp_path)
    rng = Random(seed)
    file = rng.choice(sorted(path for path in snapshot.path.rglob("*") if path.is_file()))
    if rng.random() < 0.7:
        content = bytearray(file.read_bytes())
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(bytes(content))
    else:
        file.unlink()
    is_record = file.name == "backup.json"
    with pytest.raises(ClashError) as caught:
        verify_snapshot(read_snapshot(snapshot.path))
    assert is_record or str(file) in caught.value.detail
    before = files(tmp_path)
    with pytest.raises(ClashError):
        restore(read_snapshot(snapshot.path), replaces=True)
    assert files(tmp_path) == before


def test_a_damaged_record_of_a_snapshot(tmp_path: Path) -> None:
    """It concerns that snapshot alone: the hint does not speak of the checkpoint, and the next backup is taken."""
    engine = run(job(tmp_path), 2)
    first, second = back_up(tmp_path), back_up(tmp_path)
    (second.path / "backup.json").write_text("{}")
    with pytest.raises(StateError, match="the record of a backup is damaged") as caught:
        read_snapshot(second.path)
    assert "another snapshot" in caught.value.hint
    run(engine, 3)
    third = back_up(tmp_path)
    assert set(inodes(first.path / "results").values()) <= set(inodes(third.path / "results").values())
    restore(third, replaces=True)
    assert contents(run(job(tmp_path), 5)) == expected(tmp_path / "whole", 5)


def test_the_commands(tmp_path: Path) -> None:
    engine = run(job(tmp_path), 3)
    taken = clash("backup", tmp_path / "c", tmp_path / "b")
    assert taken.exit_code == 0, taken.output
    assert f"batch 3 of {tmp_path / 'c'}" in taken.stdout
    assert "linked 0 files" in taken.stdout
    snapshot = Path(taken.stdout.splitlines()[-1].strip())
    run(engine, 5)
    assert clash("backup", tmp_path / "c", tmp_path / "b").exit_code == 0
    for path, words in (("c", "checkpoint"), (snapshot, "batch 3"), ("b", "batch 5")):
        checked = clash("verify", tmp_path / path)
        assert checked.exit_code == 0, checked.output
        assert words in checked.stdout
    refused = clash("restore", snapshot)
    assert refused.exit_code == 2
    assert "there is something in the checkpoint's place" in refused.stderr
    done = clash("restore", snapshot, "--replace")
    assert done.exit_code == 0, done.output
    assert "batch 3 is the last" in done.stdout
    assert (tmp_path / "out").glob("_before-restore-*/*.parquet")
    assert contents(run(job(tmp_path), 5)) == expected(tmp_path / "whole", 5)
    damaged = next((snapshot / "checkpoint/clash/state").rglob("*.clash"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    fault = clash("verify", tmp_path / "b")
    assert fault.exit_code == 1
    assert str(damaged) in fault.stderr
    assert "hint:" in fault.stderr
    assert clash("verify", tmp_path / "none").exit_code == 2


def test_a_second_restore_takes_the_files_of_another_life_away(tmp_path: Path) -> None:
    """Two lives of one checkpoint write different files for the same batches."""
    engine = run(job(tmp_path), 3)
    early = back_up(tmp_path)
    run(engine, 6)
    late = back_up(tmp_path)
    restore(early, replaces=True)
    run(job(tmp_path), 5)
    restore(late, replaces=True)
    assert contents(run(job(tmp_path), 8)) == expected(tmp_path / "whole", 8)


def test_to_another_place_with_its_results(tmp_path: Path) -> None:
    """The program names the new folder, and it is the same query; the old folder may be gone."""
    engine = run(job(tmp_path), 3)
    snapshot = back_up(tmp_path)
    run(engine, 5)
    here, new = contents(engine), tmp_path / "new"
    restored = restore(snapshot, to=new / "c", results={"outer": new / "out"})
    assert (restored.checkpoint, restored.aside) == (new / "c", None)
    assert contents(run(start(new / "c", new / "out"), 5)) == expected(tmp_path / "whole", 5)
    assert contents(engine) == here
    run(engine, 6)
    shutil.rmtree(tmp_path / "out")
    for folder in ("c", "c.before"):
        shutil.rmtree(tmp_path / folder, ignore_errors=True)
    assert contents(run(start(new / "c", new / "out"), 6)) == expected(tmp_path / "whole", 6)


def test_a_program_that_still_names_the_old_folder_moves_back(tmp_path: Path) -> None:
    """What a program declares counts: writing elsewhere is a change like others, and begins with its first batch."""
    run(job(tmp_path), 3)
    snapshot = back_up(tmp_path)
    new = tmp_path / "new"
    restore(snapshot, to=new / "c", results={"outer": new / "out"})
    shutil.rmtree(tmp_path / "out")
    engine = run(start(new / "c", new / "out"), 4)
    engine = start(new / "c", tmp_path / "out")
    run(engine, 6)
    reasons = [each["reason"] for each in engine.generations]
    assert "query outer writes elsewhere" in reasons[-1]
    assert {origin.batch for path in (tmp_path / "out").glob("part-*") if (origin := origin_of(path.name))} == {5, 6}
    engine.uri = str(new / "c/clash")
    whole = expected(tmp_path / "whole", 6)["outer"]
    shutil.copytree(new / "out", tmp_path / "out", dirs_exist_ok=True, ignore=shutil.ignore_patterns("_*"))
    assert contents(engine)["outer"] == whole


def test_what_is_refused_changes_nothing(tmp_path: Path) -> None:
    engine = run(job(tmp_path), 3)
    snapshot = back_up(tmp_path)
    run(engine, 4)
    other = run(start(tmp_path / "other/c", tmp_path / "other/out"), 1)
    lock = lock_checkpoint(open_storage(str(tmp_path / "c/clash")))
    before = files(tmp_path)
    aside = tmp_path / "aside"
    for what, kind, options in (
        ("another run has this checkpoint", CheckpointError, {"replaces": True}),
        ("another run has this checkpoint", CheckpointError, {"to": aside}),  # the results of the running one would be taken away
        ("something in the checkpoint's place", CheckpointError, {}),
        ("belongs to another checkpoint", CheckpointError, {"to": aside, "results": {"outer": tmp_path / "other/out"}}),
        ("no result folder of that name", OptionError, {"to": aside, "results": {"inner": tmp_path / "x"}}),
        ("a file lies where a folder is needed", OptionError, {"to": snapshot.path / "backup.json"}),
        ("a file lies where a folder is needed", OptionError, {"to": snapshot.path / "backup.json" / "c"}),
        ("a file lies where a folder is needed", OptionError, {"to": aside, "results": {"outer": snapshot.path / "backup.json"}}),
    ):
        with pytest.raises(kind, match=what):
            restore(snapshot, **options)  # type: ignore[arg-type]
        assert files(tmp_path) == before, what
    lock.release()
    del other
    with pytest.raises(CheckpointError, match="the checkpoint in the old place has the same result folders"):
        restore(snapshot, to=aside, replaces=True)
    assert files(tmp_path).items() <= before.items()
    assert before.keys() - files(tmp_path).keys() == {"c/clash/lock"}
    (tmp_path / "c").rename(tmp_path / "away")
    with pytest.raises(CheckpointError, match="results that the backup does not have"):
        restore(snapshot, to=aside)
    assert not aside.exists()


@pytest.mark.parametrize("done", range(4))
def test_a_restore_that_was_killed(tmp_path: Path, done: int) -> None:
    """A start goes on exactly with what was there, or is refused; the restore can be done again. `done`: so many of its steps."""
    engine = run(job(tmp_path), 3)
    snapshot = back_up(tmp_path)
    run(engine, 5)
    steps = [(restoring, "_copy_checkpoint"), (restoring, "_move_aside"), (FolderPlan, "carry_out"), (restoring, "flush")]

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*steps[done], killed)
        with pytest.raises(KeyboardInterrupt):
            restore(snapshot, replaces=True)
    if done == 2:
        with pytest.raises(CheckpointError, match="belongs to another checkpoint"):
            job(tmp_path)
    else:
        assert contents(run(job(tmp_path), 6)) == expected(tmp_path / "whole", 6)
    restore(snapshot, replaces=True)
    assert contents(run(job(tmp_path), 6)) == expected(tmp_path / "whole", 6)


@pytest.mark.parametrize("where", ["c/b", "out/b", "."])
def test_a_folder_of_backups_apart_from_what_is_backed_up(tmp_path: Path, where: str) -> None:
    run(job(tmp_path), 1)
    with pytest.raises(OptionError, match="overlap"):
        take_backup(str(tmp_path / "c"), tmp_path / where, "0")


def test_nothing_to_back_up(tmp_path: Path) -> None:
    job(tmp_path)
    with pytest.raises(CheckpointError, match="nothing to back up yet"):
        back_up(tmp_path)


def test_two_backups_at_once(tmp_path: Path) -> None:
    run(job(tmp_path), 1)
    with backups._locked(tmp_path / "b"), pytest.raises(CheckpointError, match="another backup"):
        back_up(tmp_path)


def test_remote_places_are_refused(tmp_path: Path) -> None:
    remote = replace(program(tmp_path / "out"), queries=(QueryRequest("outer", OUTER, (), SinkSpec("parquet", "memory:far-away")),))
    run(start(tmp_path / "c", tmp_path / "out", remote), 1)
    with pytest.raises(OptionError, match="only local folders") as caught:
        back_up(tmp_path)
    assert "stop the job" in caught.value.hint


def test_verify_of_a_running_job(tmp_path: Path) -> None:
    engine = run(job(tmp_path), 0)
    with running(engine, 12):
        while engine.coordinator.last < 11:
            verify_checkpoint(str(tmp_path / "c"))


def test_verify_names_a_lost_and_a_damaged_file(tmp_path: Path) -> None:
    run(job(tmp_path), 3)
    result = next((tmp_path / "out").glob("part-*"))
    content = result.read_bytes()
    result.write_bytes(content[: len(content) // 2])
    with pytest.raises(StateError, match="a result file is damaged") as caught:
        verify_checkpoint(str(tmp_path / "c"))
    assert str(result) in caught.value.detail
    result.write_bytes(content)
    verify_checkpoint(str(tmp_path / "c"))
    lost = tmp_path / "c/spark/offsets/3"
    lost.unlink()
    with pytest.raises(CheckpointError, match="two halves"):
        verify_checkpoint(str(tmp_path / "c"))


@pytest.mark.parametrize("seed", range(12))
def test_a_copy_of_a_running_job_goes_on_exactly_or_is_refused(tmp_path: Path, seed: int) -> None:
    """`cp -r` of the checkpoint and of the result folder, in either order, at any time, fast or slow."""
    rng = Random(seed)
    engine = run(job(tmp_path), 2)
    copy = tmp_path / "copy"
    copy.mkdir()
    with running(engine, 9):
        time.sleep(rng.random() / 2)
        pause = rng.choice([0, 0, 0.001, 0.005, 0.02])
        for source in rng.sample(["c", "out"], 2):
            if pause:
                copy_slowly(tmp_path / source, copy / source, rng, pause)
            else:
                subprocess.run(["cp", "-r", str(tmp_path / source), str(copy / source)], check=False, capture_output=True)
    whole = expected(tmp_path / "whole", 9)
    for folder in ("c", "out"):
        shutil.rmtree(tmp_path / folder)
        (copy / folder).rename(tmp_path / folder)
    before = files(tmp_path)
    try:
        again = job(tmp_path)
    except ClashError as error:
        assert str(tmp_path) in error.detail
        assert error.hint
        assert files(tmp_path) == before
        return
    assert contents(run(again, 9)) == whole


def test_record_of_a_newer_version(tmp_path: Path) -> None:
    run(job(tmp_path), 1)
    snapshot = back_up(tmp_path)
    text = (snapshot.path / "backup.json").read_text().partition("\n")[0]
    assert json.loads(text)["batch"] == 1
    backups.write_snapshot_record(snapshot.path, replace(snapshot.record, format=2))
    with pytest.raises(CheckpointError, match="another version"):
        read_snapshot(snapshot.path)
