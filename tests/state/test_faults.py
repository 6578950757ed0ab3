"""Faults of the file system: the error names the file and has a hint, and no partly written file is left."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from clash.errors import StateError
from clash.state.cache import FileCache, default_folder
from clash.state.storage import ArrowStorage, LocalStorage


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def fail(number: int) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("call", ["writev", "open", "fsync"])
@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EACCES, "access"),
        (errno.EROFS, "can be written"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EIO, "see"),
    ],
)
def test_errors_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, hint: str) -> None:
    storage = LocalStorage(tmp_path)
    storage.write("a/f", [b"old"])
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail(number))
        with pytest.raises(StateError) as caught:
            storage.write("a/f", [b"new"], durable=True)
    assert caught.value.detail == f"{tmp_path}/a/f: {os.strerror(number)}"
    assert hint in caught.value.hint
    assert storage.read("a/f").to_pybytes() == b"old"
    assert names(tmp_path) == ["a/f"]


def test_short_writes_go_on_and_a_full_disk_ends_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(tmp_path)
    pieces = [b"abc", b"", b"defgh", pa.py_buffer(b"ij"), b"k" * 50]
    monkeypatch.setattr(os, "writev", lambda descriptor, views: os.write(descriptor, b"".join(views)[:4]))
    assert storage.write("f", pieces) == 60
    assert storage.read("f").to_pybytes() == b"abcdefghij" + b"k" * 50
    calls = []

    def full(descriptor: int, views: Sequence[Any]) -> int:
        calls.append(views)
        if len(calls) > 3:
            raise OSError(errno.ENOSPC, "full")
        return os.write(descriptor, b"".join(views)[:4])

    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(StateError, match="free some space"):
        storage.write("f", pieces)
    assert storage.size("f") == 60
    assert names(tmp_path) == ["f"]


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "writev", interrupt)
    with pytest.raises(KeyboardInterrupt):
        LocalStorage(tmp_path).write("f", [b"x"])
    assert names(tmp_path) == []


def test_a_real_limit_on_the_size_of_files(tmp_path: Path) -> None:
    program = """
        import resource, sys
        from clash.errors import StateError
        from clash.state.storage import LocalStorage
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        storage = LocalStorage(sys.argv[1])
        storage.write("fits", [bytes(10_000)])
        try:
            storage.write("too/large", [bytes(6_000), bytes(6_000)])
        except StateError as error:
            sys.exit(0 if "ulimit -f" in error.hint and "too/large" in error.detail else 2)
        sys.exit(3)
    """
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(program), tmp_path], check=False, timeout=60)
    assert found.returncode == 0
    assert names(tmp_path) == ["fits"]


def test_a_file_where_a_folder_is_needed(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.write("f", [b"x"])
    with pytest.raises(StateError, match="f/g"):
        storage.write("f/g", [b"y"])
    storage.write("a/b", [b"y"])
    with pytest.raises(StateError, match="a folder lies where a file is needed"):
        storage.write("a", [b"y"])
    for action in (storage.read, storage.size):
        with pytest.raises(StateError, match="f/g"):
            action("f/g")
    assert not storage.exists("f/g")
    storage.delete(["f/g"])
    assert names(tmp_path) == ["a/b", "f"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may do anything")
def test_a_forbidden_folder(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.write("a/f", [b"x"])
    (tmp_path / "a").chmod(0)
    try:
        for action in (
            lambda: storage.read("a/f"),
            lambda: storage.write("a/g", [b""]),
            lambda: storage.list("a"),
            lambda: storage.exists("a/f"),
        ):
            with pytest.raises(StateError, match="access"):
                action()
    finally:
        (tmp_path / "a").chmod(0o700)


def test_a_killed_writer_leaves_nothing_under_the_name(tmp_path: Path) -> None:
    program = """
        import os, signal, sys
        from clash.state.storage import LocalStorage
        os.writev = lambda descriptor, views: (os.write(descriptor, views[0]), os.kill(os.getpid(), signal.SIGKILL))
        LocalStorage(sys.argv[1]).write("a/f", [b"half", b"rest"])
    """
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(program), tmp_path], check=False, timeout=60)
    assert found.returncode == -signal.SIGKILL
    storage = LocalStorage(tmp_path)
    assert not storage.exists("a/f")
    assert storage.list(recursive=True) == []
    assert storage.sweep() == 1
    assert names(tmp_path) == []


def test_a_folder_that_others_delete_again_and_again(tmp_path: Path) -> None:
    """One process deletes the last file of a folder, and with it the folder, while another writes into it."""
    program = """
        import sys
        from clash.state.storage import LocalStorage
        storage = LocalStorage(sys.argv[1])
        for number in range(400):
            path = f"a/b/{sys.argv[2]}-{number}"
            storage.write(path, [b"x"])
            storage.move(path, f"c/d/{sys.argv[2]}")
            storage.delete([f"c/d/{sys.argv[2]}"])
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    running = [subprocess.Popen([*command, str(number)]) for number in range(2)]
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    assert list(tmp_path.iterdir()) == []


class TestCache:
    """The cache of remote files: correct whatever changes on the remote side, and bounded."""

    @staticmethod
    def remote(tmp_path: Path, limit: int = 1 << 30) -> ArrowStorage:
        return ArrowStorage(pafs.LocalFileSystem(), f"{tmp_path}/remote", tmp_path / "cache", cache_limit=limit)

    def test_a_file_is_copied_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        storage = self.remote(tmp_path)
        storage.write("f", [b"content"])
        first = storage.read("f")
        monkeypatch.setattr(FileCache, "_copy", fail(errno.EIO))
        assert storage.read("f").equals(first)
        assert self.remote(tmp_path).read("f").equals(first)
        assert len(names(tmp_path / "cache")) == 1

    def test_a_file_of_the_same_name_and_size_that_came_later(self, tmp_path: Path) -> None:
        storage = self.remote(tmp_path)
        storage.write("f", [b"old"])
        os.utime(tmp_path / "remote/f", (1, 1))
        assert storage.read("f").to_pybytes() == b"old"
        storage.delete(["f"])
        with pytest.raises(StateError, match="missing"):
            storage.read("f")
        storage.write("f", [b"new"])
        assert storage.read("f").to_pybytes() == b"new"

    def test_a_damaged_copy_is_fetched_again(self, tmp_path: Path) -> None:
        storage = self.remote(tmp_path)
        storage.write("f", [b"content"])
        storage.read("f")
        (copy,) = (tmp_path / "cache").iterdir()
        copy.write_bytes(b"cut")
        assert storage.read("f").to_pybytes() == b"content"

    def test_the_oldest_copies_go_first(self, tmp_path: Path) -> None:
        storage = self.remote(tmp_path, limit=1000)
        buffers = []
        for number in range(30):
            storage.write(f"{number}", [bytes([number]) * 100])
            buffers.append(storage.read(f"{number}"))
            assert sum(path.stat().st_size for path in (tmp_path / "cache").iterdir()) <= 1100
        assert [buffer.to_pybytes() for buffer in buffers] == [bytes([number]) * 100 for number in range(30)]
        assert storage.read("0").to_pybytes() == bytes(100)

    def test_a_full_cache_disk_names_both_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        storage = self.remote(tmp_path)
        storage.write("f", [b"content"])
        monkeypatch.setattr("shutil.copyfileobj", fail(errno.ENOSPC))
        with pytest.raises(StateError, match=r"cannot be cached\n.*remote/f -> .*/cache/.*\n.*free some space"):
            storage.read("f")
        assert names(tmp_path / "cache") == []

    def test_the_default_folder_belongs_to_the_user(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        folder = default_folder()
        assert folder == default_folder()
        assert folder.stat().st_mode & 0o777 == 0o700
        folder.chmod(0o777)
        other = default_folder()
        assert other != folder
        assert other.stat().st_mode & 0o777 == 0o700
