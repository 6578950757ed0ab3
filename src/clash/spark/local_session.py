"""Spark sessions of commands: configured by `clash.configure`, and without output to the terminal.

The standard error of the JVM and of its Python workers goes to a file: at its start Spark logs a dozen lines that are of no use to a user.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from clash.errors import ClashError
from clash.spark.configure import configure

_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}


@contextmanager
def local_session(name: str, cores: int, log: Path, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A new session of `cores` threads, which is stopped at the end of the block. `log`: the file for Spark's standard error."""
    with session(name, f"local[{cores}]", log, {**_QUIET, **(settings or {})}) as spark:
        yield spark


def is_submitted() -> bool:
    """Whether this process was started by spark-submit: it has chosen the master, and its JVM runs."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@contextmanager
def session(name: str, master: str | None, log: Path, settings: Mapping[str, str], kafka: bool = False) -> Iterator[Any]:
    """A session, which is stopped at the end of the block. Under spark-submit it is the one that was submitted. `log`: the file for
    Spark's standard error."""
    builder = SparkSession.builder.appName(name)
    if master is not None and not is_submitted():
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with _stderr_to(log):
            spark = configure(builder, kafka=kafka).getOrCreate()
    except PySparkRuntimeError as error:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        hint = "Spark 4 needs Java 17 or later: `make java` looks for one; or set JAVA_HOME"
        raise ClashError("Spark does not start", lines[-1] if lines else str(error).splitlines()[0], hint) from error
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _stderr_to(file: Path) -> Iterator[None]:
    """Processes that are started in the block inherit the file as their standard error, and write to it until they end."""
    original = os.dup(2)
    redirected = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(redirected, 2)
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)
        os.close(redirected)
