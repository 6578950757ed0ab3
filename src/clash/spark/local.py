"""A Spark session on this machine, for the demo and the benchmarks: quiet, and with our settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from clash.errors import ClashError
from clash.spark.configure import configure

_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}


@contextmanager
def local_session(name: str, cores: int, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for key, value in {**_QUIET, **(settings or {})}.items():
        builder = builder.config(key, value)
    try:
        spark = configure(builder).getOrCreate()
    except PySparkRuntimeError as error:
        hint = "Spark 4 needs Java 17 or later: `make java` looks for one; or set JAVA_HOME"
        raise ClashError("Spark does not start", str(error).splitlines()[0], hint) from error
    try:
        yield spark
    finally:
        spark.stop()
