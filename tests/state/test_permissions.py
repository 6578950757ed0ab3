"""A checkpoint is its owner's alone; what belongs to users, such as result folders, has ordinary permissions."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from clash.errors import StateError
from clash.state.checkpoint_lock import lock_checkpoint
from clash.state.private_folders import make_private
from clash.state.storage import LocalStorage, open_storage


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): oct(stat.S_IMODE(path.lstat().st_mode)) for path in sorted(folder.rglob("*"))}


def test_a_checkpoint_that_a_run_makes(tmp_path: Path) -> None:
    lock = lock_checkpoint(open_storage(str(tmp_path / "data" / "checkpoint" / "clash")))
    storage = open_storage(str(tmp_path / "data" / "checkpoint" / "clash"))
    storage.write("job.json", [b"{}"], durable=True)
    storage.write("state/s_R/f", [b""])
    storage.move("state/s_R/f", "new/folder/f")
    assert modes(tmp_path) == {
        "data": "0o755",
        "data/checkpoint": "0o700",
        "data/checkpoint/clash": "0o700",
        "data/checkpoint/clash/job.json": "0o600",
        "data/checkpoint/clash/lock": "0o600",
        "data/checkpoint/clash/new": "0o700",
        "data/checkpoint/clash/new/folder": "0o700",
        "data/checkpoint/clash/new/folder/f": "0o600",
    }
    lock.release()


def test_a_folder_that_the_user_has_made_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    lock = lock_checkpoint(open_storage(str(tmp_path / "checkpoint" / "clash")))
    make_private(tmp_path / "checkpoint" / "spark")
    make_private(tmp_path / "checkpoint" / "spark")
    assert modes(tmp_path) == {
        "checkpoint": "0o755",
        "checkpoint/clash": "0o700",
        "checkpoint/clash/lock": "0o600",
        "checkpoint/spark": "0o700",
    }
    lock.release()


def test_a_folder_that_is_shared_with_a_group(tmp_path: Path) -> None:
    """Workers may run under another user of it."""
    os.umask(0o002)
    (tmp_path / "checkpoint").mkdir(mode=0o770)
    lock = lock_checkpoint(open_storage(str(tmp_path / "checkpoint" / "clash")))
    open_storage(str(tmp_path / "checkpoint" / "clash")).write("a/f", [b""])
    found = modes(tmp_path)
    assert (found["checkpoint/clash"], found["checkpoint/clash/a"], found["checkpoint/clash/a/f"]) == ("0o770", "0o770", "0o660")
    lock.release()


def test_results_have_ordinary_permissions(tmp_path: Path) -> None:
    LocalStorage(tmp_path / "results").write("_staging/f", [b""])
    assert modes(tmp_path) == {"results": "0o755", "results/_staging": "0o755", "results/_staging/f": "0o644"}


def test_nothing_is_changed_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "f").write_text("content")
    storage = LocalStorage(tmp_path / "root")
    storage.write("mine", [b""])
    (tmp_path / "root" / "link").symlink_to(tmp_path / "elsewhere")
    for action in (
        lambda: storage.write("link/f", [b"x"]),
        lambda: storage.write("link/new/f", [b"x"]),
        lambda: storage.delete(["link/f"]),
        lambda: storage.move("link/f", "mine"),
        lambda: storage.move("mine", "link/f"),
        lambda: storage.list("link"),
        lambda: storage.sweep("link"),
    ):
        with pytest.raises(StateError, match="a folder of the state is a symbolic link"):
            action()
    assert storage.list("", recursive=True) == ["link", "mine"]
    storage.delete(["link"])
    assert (tmp_path / "elsewhere" / "f").read_text() == "content"


def test_the_root_may_be_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "checkpoint").symlink_to(tmp_path / "disk")
    storage = LocalStorage(tmp_path / "checkpoint" / "clash")
    storage.write("a/f", [b"x"])
    assert storage.list("", recursive=True) == ["a/f"]
