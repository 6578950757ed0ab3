"""The jar of the package is what its sources give."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from clash.spark.java_classes import JAR, file_streams, jobs

SCRIPT = Path(__file__).parents[2] / "scripts" / "build_jar.py"


def test_the_jar_is_built_from_its_sources(tmp_path: Path) -> None:
    javac = shutil.which("javac")
    version = subprocess.run([javac, "-version"], capture_output=True, text=True, check=True).stdout if javac else ""
    if javac is None or not version.startswith("javac 17."):
        pytest.skip("no javac of a JDK 17 is here to build the jar with")
    spec = importlib.util.spec_from_file_location("build_jar", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    built = tmp_path / "built.jar"
    script.build(built, javac)
    with ZipFile(built) as new, ZipFile(JAR) as kept:
        assert {name: new.read(name) for name in new.namelist()} == {name: kept.read(name) for name in kept.namelist()}


def test_the_classes_are_used(spark: Any) -> None:
    assert file_streams(spark.sparkContext) is not None
    assert jobs(spark.sparkContext) is not None
