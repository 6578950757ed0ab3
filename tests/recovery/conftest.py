"""One Spark for what needs no process of its own, and Java for those that do."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clash


@pytest.fixture(scope="session", autouse=True)
def java() -> None:
    """`make` sets JAVA_HOME; so does this, for a bare pytest."""
    if "JAVA_HOME" not in os.environ:
        script = Path(__file__).parents[2] / "scripts" / "java.sh"
        found = subprocess.run([script, "find"], capture_output=True, text=True, check=False).stdout.strip()
        if found:
            os.environ["JAVA_HOME"] = found


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
    builder.config("spark.local.dir", str(tmp_path_factory.mktemp("spark"))).config("spark.sql.session.timeZone", "UTC")
    session = clash.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
