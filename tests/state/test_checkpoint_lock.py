"""A checkpoint belongs to one run at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from clash.errors import CheckpointError
from clash.state.checkpoint_lock import CheckpointLock
from clash.state.storage import open_storage


def test_a_second_lock_is_refused_until_the_first_is_released(tmp_path: Path) -> None:
    first = CheckpointLock(open_storage(str(tmp_path / "new" / "clash")))
    with pytest.raises(CheckpointError, match="another run has this checkpoint"):
        CheckpointLock(open_storage(str(tmp_path / "new" / "clash")))
    first.release()
    first.release()
    CheckpointLock(open_storage(str(tmp_path / "new" / "clash"))).release()


def test_a_storage_in_memory_needs_no_lock() -> None:
    for lock in (CheckpointLock(open_storage("memory:unlocked")), CheckpointLock(open_storage("memory:unlocked"))):
        lock.release()
