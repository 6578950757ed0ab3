"""`clash.configure`: Spark settings under which micro-batches are short.

None is needed for right results, and none that the user has set is touched: on the builder, in spark-defaults.conf, or on the
command line of spark-submit.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from clash.errors import OptionError

_LOG = logging.getLogger("clash")

EVERYWHERE: Mapping[str, str] = {
    "spark.python.unix.domain.socket.enabled": "true",  # over TCP every Python task waits some 40 ms
    "spark.sql.adaptive.enabled": "false",  # a stage of few large messages has nothing to adapt
    "spark.sql.files.openCostInBytes": "0",  # few scan tasks: each costs 15 to 25 ms
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.task.maxFailures": "1",  # a batch fails, and is run again, as a whole
    "spark.stage.maxConsecutiveAttempts": "1",
}
ON_ONE_MACHINE: Mapping[str, str] = {
    # batches are short: the second compiler costs more than its code gains, for as long as anyone has waited
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:TieredStopAtLevel=1",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",  # no .crc files, each of which forks a chmod
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",  # one file less per checkpoint file
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.broadcast.compress": "false",
}


def configure(builder: Any) -> Any:
    """The same builder, with our settings where the user has none; give it to `getOrCreate()`."""
    if not isinstance(builder, SparkSession.Builder):
        raise OptionError(
            "not a builder of Spark sessions", type(builder).__name__, 'write clash.configure(SparkSession.builder.master("local[2]"))'
        )
    if SparkContext._active_spark_context is not None:
        _LOG.warning("Spark runs already: settings that count at its start stay as they are; call clash.configure before getOrCreate")
    given = _given() | {key: str(value) for key, value in builder._options.items()}
    for key, value in settings(given.get("spark.master", "local[*]")).items():
        if key not in given:
            builder.config(key, value)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or workers run whatever `python3` is
    return builder


def settings(master: str) -> dict[str, str]:
    """Everything that `configure` would set under this master."""
    found = dict(EVERYWHERE)
    if is_local(master):
        found |= ON_ONE_MACHINE
        found["spark.sql.streaming.checkpointFileManagerClass"] = (
            f"{_checkpointing(pyspark.__version__)}.FileSystemBasedCheckpointFileManager"
        )
    return found


def is_local(master: str) -> bool:
    """One machine, one JVM. `local-cluster[…]` starts several."""
    return master == "local" or master.startswith("local[")


def _checkpointing(version: str) -> str:
    """The package of the file managers: it moved with Spark 4.1."""
    major, minor = (int(part) for part in version.split(".")[:2])
    package = "org.apache.spark.sql.execution.streaming"
    return f"{package}.checkpointing" if (major, minor) >= (4, 1) else package


def _given() -> dict[str, str]:
    """What the user has set outside the builder."""
    if SparkContext._jvm is not None or "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit: Spark knows
        SparkContext._ensure_initialized()
        return dict(SparkConf(_jvm=SparkContext._jvm).getAll())
    return dict(_of_file()) | dict(_of_arguments(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))


def _of_file() -> Iterator[tuple[str, str]]:
    homes = [os.environ.get("SPARK_CONF_DIR"), os.environ.get("SPARK_HOME") and f"{os.environ['SPARK_HOME']}/conf"]
    folder = next((home for home in homes if home), None)
    file = Path(folder) / "spark-defaults.conf" if folder else None
    if file is None or not file.is_file():
        return
    for line in file.read_text().splitlines():
        key, _, value = line.strip().replace("=", " ", 1).partition(" ")
        if key and not key.startswith("#"):
            yield key, value.strip()


def _of_arguments(text: str) -> Iterator[tuple[str, str]]:
    for option, value in pairwise(shlex.split(text)):
        if option in ("--conf", "-c") and "=" in value:
            key, _, what = value.partition("=")
            yield key, what
        elif option == "--master":
            yield "spark.master", value
        elif option == "--driver-java-options":
            yield "spark.driver.extraJavaOptions", value
