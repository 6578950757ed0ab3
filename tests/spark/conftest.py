"""A folder for the checkpoint of a run, and JSON files for plain Spark queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .json_files import JsonFiles


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


@pytest.fixture
def files(spark: Any, tmp_path: Path) -> JsonFiles:
    made = JsonFiles(spark, tmp_path)
    for stream in "RST":
        for file in range(3):
            made.put(stream, file)
    return made
