"""A Spark session on this machine, for the demo and the benchmarks: with our settings, and quiet.

What the JVM and its Python workers have to say goes to a file: Spark greets with a dozen lines that tell a user nothing.
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
    """A new session of `cores` threads, ended with the block; `log` is where Spark writes what it would say."""
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for key, value in {**_QUIET, **(settings or {})}.items():
        builder = builder.config(key, value)
    try:
        with _errors_to(log):
            spark = configure(builder).getOrCreate()
    except PySparkRuntimeError as error:
        said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        hint = "Spark 4 needs Java 17 or later: `make java` looks for one; or set JAVA_HOME"
        raise ClashError("Spark does not start", said[-1] if said else str(error).splitlines()[0], hint) from error
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _errors_to(file: Path) -> Iterator[None]:
    """Processes started in here inherit the file as their standard error, for as long as they live."""
    kept = os.dup(2)
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(opened, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(opened)
