"""One run per checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from clash.errors import CheckpointError
from clash.state.checkpoint_lock import Alone
from clash.state.storage import open_storage


def test_a_second_one_is_refused_until_the_first_has_gone(tmp_path: Path) -> None:
    first = Alone(open_storage(str(tmp_path / "new" / "clash")))
    with pytest.raises(CheckpointError, match="another run has this checkpoint"):
        Alone(open_storage(str(tmp_path / "new" / "clash")))
    first.release()
    first.release()
    Alone(open_storage(str(tmp_path / "new" / "clash"))).release()


def test_in_memory_there_is_nobody_else() -> None:
    for alone in (Alone(open_storage("memory:alone")), Alone(open_storage("memory:alone"))):
        alone.release()
