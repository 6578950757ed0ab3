"""Sinks are plain values; what they do is in the run's tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clash
from clash import sinks


def test_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sinks.Parquet("out/q1").url == f"{tmp_path}/out/q1"
    assert sinks.Parquet(tmp_path / "x").url == f"{tmp_path}/x"
    assert sinks.Parquet("s3://bucket/q1").url == "s3://bucket/q1"


@pytest.mark.parametrize(
    "make",
    [
        lambda: sinks.Parquet(""),
        lambda: sinks.Parquet(3),  # type: ignore[arg-type]
        lambda: sinks.Console(0),
        lambda: sinks.Console(rows="all"),  # type: ignore[arg-type]
        lambda: sinks.ForeachBatch("print"),  # type: ignore[arg-type]
    ],
)
def test_wrong_ones_are_refused(make: Any) -> None:
    with pytest.raises(clash.OptionError) as caught:
        make()
    assert caught.value.hint


def test_sinks_need_no_spark() -> None:
    code = "import sys, clash; clash.sinks.Memory(); assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
