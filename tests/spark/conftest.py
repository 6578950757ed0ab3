"""A place for the checkpoint of a run."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
