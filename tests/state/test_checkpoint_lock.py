"""A checkpoint belongs to one run at a time, and a lock leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from clash.errors import CheckpointError, StateError
from clash.state.checkpoint_lock import lock_checkpoint
from clash.state.file_lock import FileLock
from clash.state.lock_owner import held_here, read_owner, this_process
from clash.state.storage import ArrowStorage, open_storage


def test_a_second_lock_is_refused_until_the_first_is_released(tmp_path: Path) -> None:
    first = lock_checkpoint(open_storage(str(tmp_path / "new" / "clash")))
    first.check()
    with pytest.raises(CheckpointError, match="another run has this checkpoint") as caught:
        lock_checkpoint(open_storage(str(tmp_path / "new" / "clash")))
    assert f"process {os.getpid()}, since 20" in caught.value.detail
    first.release()
    first.release()
    lock_checkpoint(open_storage(str(tmp_path / "new" / "clash"))).release()


def test_a_released_lock_leaves_nothing_that_it_made(tmp_path: Path) -> None:
    lock_checkpoint(open_storage(str(tmp_path / "a" / "b" / "clash"))).release()
    assert list(tmp_path.iterdir()) == []
    storage = open_storage(str(tmp_path / "a" / "clash"))
    lock = lock_checkpoint(storage)
    storage.write("job.json", [b"{}"])
    lock.release()
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["a", "a/clash", "a/clash/job.json"]


def test_a_checkpoint_that_is_moved_and_another_in_its_place(tmp_path: Path) -> None:
    """As a restore moves one aside: its lock is given free, and not that of a run which has begun meanwhile."""
    first = FileLock(tmp_path / "c/clash/lock")
    (tmp_path / "c").rename(tmp_path / "aside")
    second = FileLock(tmp_path / "c/clash/lock")
    first.release()
    with pytest.raises(CheckpointError, match="another run"):
        FileLock(tmp_path / "c/clash/lock")
    second.release()
    FileLock(tmp_path / "aside/clash/lock").release()


def test_folders_that_were_there_stay(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    lock_checkpoint(open_storage(str(tmp_path / "mine" / "clash"))).release()
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"]
    assert list((tmp_path / "mine").iterdir()) == []


def test_of_many_that_try_at_once_one_has_it(tmp_path: Path) -> None:
    """Each removes the file on release: nobody may be left with a lock on a file that has no name any more."""
    held: list[int] = []

    def contend(number: int) -> int:
        won = 0
        for _ in range(100):
            try:
                lock = lock_checkpoint(open_storage(str(tmp_path / "c" / "clash")))
            except CheckpointError:
                continue
            held.append(number)
            assert held == [number]
            held.remove(number)
            lock.release()
            won += 1
        return won

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(contend, range(4))) > 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_killed_process_gives_the_lock_free(tmp_path: Path) -> None:
    program = """
        import os, signal, sys
        from clash.state.checkpoint_lock import lock_checkpoint
        from clash.state.storage import open_storage
        lock = lock_checkpoint(open_storage(sys.argv[1]))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(program), tmp_path / "clash"], check=False, timeout=60)
    assert found.returncode == -signal.SIGKILL
    left = read_owner((tmp_path / "clash" / "lock").read_bytes())
    assert left is not None
    assert left.is_gone
    lock_checkpoint(open_storage(str(tmp_path / "clash"))).release()


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """It would be followed, and what it points to overwritten."""
    (tmp_path / "clash").mkdir()
    (tmp_path / "precious").write_text("content")
    (tmp_path / "clash" / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(StateError):
        lock_checkpoint(open_storage(str(tmp_path / "clash")))
    assert (tmp_path / "precious").read_text() == "content"


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{}", b'{"user":1}', b"[" * 100_000, b'{"user":{},"host":[]}'])
def test_a_lock_file_that_says_nothing(content: bytes) -> None:
    assert read_owner(content) is None


def test_an_owner_is_read_back_and_is_alive() -> None:
    owner = this_process()
    assert read_owner(owner.content) == owner
    assert owner.is_gone  # this process has no such lease
    held_here.add(owner.token)
    assert not owner.is_gone
    held_here.remove(owner.token)
    assert replace(owner, started="1").is_gone
    assert not replace(owner, started="1", machine="another").is_gone


def test_a_storage_in_memory_needs_no_lock() -> None:
    for lock in (lock_checkpoint(open_storage("memory:unlocked")), lock_checkpoint(open_storage("memory:unlocked"))):
        lock.check()
        lock.release()


def test_a_storage_without_a_lock_cannot_hold_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="it offers no lock"):
        lock_checkpoint(ArrowStorage(pafs._MockFileSystem(), "bucket", tmp_path))
