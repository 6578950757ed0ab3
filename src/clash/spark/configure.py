"""`clash.configure`: Spark settings under which micro-batches are short.

Results are right without any of them. A setting of the user's is never changed, whether it was made on the builder, in
spark-defaults.conf, or on the command line of spark-submit.
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
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from clash.errors import OptionError
from clash.spark.java_classes import JAR, LOCAL_FILES
from clash.spark.kafka_jars import MAVEN_CENTRAL, fetch_jars, find_jars

_LOG = logging.getLogger("clash")

LOOPBACK = "127.0.0.1"
_CLASS_PATH, _FILE_SYSTEM = "spark.driver.extraClassPath", "spark.hadoop.fs.file.impl"
_JARS, _REPOSITORIES = "spark.jars", "spark.jars.repositories"
_KAFKA_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
# Python workers keep memory for the next batch instead of returning it to the system, which gives it back in fresh pages, ten times as slow
# as used ones: Arrow for ten seconds, malloc (of numpy) up to a gigabyte.
_KEPT_MEMORY = {
    "MIMALLOC_PURGE_DELAY": "10000",
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "67108864",
}
EVERYWHERE: Mapping[str, str] = {
    "spark.python.unix.domain.socket.enabled": "true",  # over TCP every Python task waits some 40 ms
    "spark.sql.adaptive.enabled": "false",  # a stage of few, large messages leaves nothing to adapt
    "spark.sql.files.openCostInBytes": "0",  # packs files into few scan tasks: each task costs 15 to 25 ms
    # bytes of the driver's cache of listed files, which by default grows to 250 MB: a file of a stream is read once
    "spark.sql.hive.filesourcePartitionFileCacheSize": "8388608",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.task.maxFailures": "1",  # a batch fails as a whole, and is repeated as a whole
    "spark.stage.maxConsecutiveAttempts": "1",
}
ON_ONE_MACHINE: Mapping[str, str] = {
    **{f"spark.executorEnv.{name}": value for name, value in _KEPT_MEMORY.items()},
    # batches are short: the JVM's second compiler (C2) costs more than its code gains, also in the longest runs measured. Without it the
    # JVM reserves 48 MB for compiled code, which many outer queries fill: then it compiles nothing more. With it, it reserves 240 MB.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    # the log of a source of files keeps as many batches as the other logs, and not those of ten minutes beside, which is meant for
    # storages whose lists are late
    "spark.sql.streaming.fileSource.log.cleanupDelay": "0s",
    "spark.driver.bindAddress": LOOPBACK,  # no other machine takes part
    "spark.driver.host": LOOPBACK,
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.broadcast.compress": "false",
}


def configure(builder: Any, kafka: bool | str | os.PathLike[str] = False) -> Any:
    """Adds `settings` to a builder of Spark sessions, except those that the user has made, and returns the builder for `getOrCreate()`.

    `kafka`: True adds Spark's Kafka connector, fetched from a Maven repository (the first of `spark.jars.repositories`, else Maven Central)
    into a cache; a folder adds the one whose jars are there.
    """
    if not isinstance(builder, SparkSession.Builder):
        raise OptionError(
            "not a builder of Spark sessions", type(builder).__name__, 'write clash.configure(SparkSession.builder.master("local[2]"))'
        )
    if SparkContext._active_spark_context is not None:
        _LOG.warning("Spark runs already: settings that take effect at its start stay as they are; call clash.configure before getOrCreate")
    given = _settings_outside_builder() | {key: str(value) for key, value in builder._options.items()}
    master = given.get("spark.master", "local[*]")
    defaults = settings(master)
    if is_local(master) and not _has_jvm() and JAR.is_file() and not {_CLASS_PATH, _FILE_SYSTEM} & given.keys():
        # Hadoop's own class starts a process for every file that it creates; without ours it stays: checksums count for more than time
        defaults |= {_CLASS_PATH: str(JAR), _FILE_SYSTEM: LOCAL_FILES}
    if is_local(master) and os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK) != LOOPBACK:  # where Spark's UI listens
        del defaults["spark.driver.bindAddress"], defaults["spark.driver.host"]  # the user has chosen another address
    for key, value in defaults.items():
        if key not in given:
            builder.config(key, value)
    if kafka is not False:
        _add_kafka(builder, kafka, given)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise Python workers run the `python3` of the PATH
    return builder


def _add_kafka(builder: Any, kafka: object, given: Mapping[str, str]) -> None:
    """Adds the jars of the connector to those of the user. A JVM that runs must have them already."""
    if kafka is not True and (not isinstance(kafka, str | os.PathLike) or not str(kafka).strip()):
        raise OptionError("kafka is neither True nor a folder", repr(kafka), 'write kafka=True, or kafka="/path/to/jars"')
    if _has_jvm() and _jvm_has_class(_KAFKA_CLASS):
        return
    if kafka is True:
        repository = given.get(_REPOSITORIES, "").split(",")[0].strip() or MAVEN_CENTRAL
        cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "clash"
        jars = fetch_jars(cache, pyspark.__version__, repository)
    else:
        jars = find_jars(Path(str(kafka)).expanduser().absolute(), pyspark.__version__)
    paths = ",".join(str(path) for path in jars.values())
    if _has_jvm():
        hint = f"start the program with spark-submit --jars {paths}, or call clash.configure before the first session"
        raise OptionError("Spark runs already, without its Kafka connector", "a JVM that runs takes no jars", hint)
    builder.config(_JARS, ",".join(filter(None, (given.get(_JARS), paths))))


def _jvm_has_class(name: str) -> bool:
    SparkContext._ensure_initialized()
    lang: Any = SparkContext._jvm.java.lang  # type: ignore[union-attr]
    try:
        lang.Class.forName(name, False, lang.Thread.currentThread().getContextClassLoader())
    except Py4JError:
        return False
    return True


def settings(master: str) -> dict[str, str]:
    """All that `configure` sets under this master where the user has set nothing."""
    defaults = dict(EVERYWHERE)
    if is_local(master):
        defaults |= ON_ONE_MACHINE
        package = _checkpointing_package(pyspark.__version__)
        defaults["spark.sql.streaming.checkpointFileManagerClass"] = f"{package}.FileSystemBasedCheckpointFileManager"
    return defaults


def is_local(master: str) -> bool:
    """Whether all of Spark runs in one JVM on this machine. `local-cluster[…]` starts several JVMs, and is not local."""
    return master == "local" or master.startswith("local[")


def _has_jvm() -> bool:
    """Whether a JVM runs, as under spark-submit: its class path cannot change any more."""
    return SparkContext._jvm is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def _checkpointing_package(version: str) -> str:
    """The Java package of Spark's checkpoint file managers, which moved with Spark 4.1."""
    major, minor = (int(part) for part in version.split(".")[:2])
    package = "org.apache.spark.sql.execution.streaming"
    return f"{package}.checkpointing" if (major, minor) >= (4, 1) else package


def _settings_outside_builder() -> dict[str, str]:
    """What the user has set in spark-defaults.conf or on a command line."""
    if _has_jvm():  # it has read them
        SparkContext._ensure_initialized()
        return dict(SparkConf(_jvm=SparkContext._jvm).getAll())
    return dict(_settings_in_file()) | dict(_settings_in_arguments(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))


def _settings_in_file() -> Iterator[tuple[str, str]]:
    """The lines of spark-defaults.conf, in the folder in which Spark looks for it."""
    folders = [os.environ.get("SPARK_CONF_DIR"), os.environ.get("SPARK_HOME") and f"{os.environ['SPARK_HOME']}/conf"]
    folder = next((folder for folder in folders if folder), None)
    file = Path(folder) / "spark-defaults.conf" if folder else None
    if file is None or not file.is_file():
        return
    for line in file.read_text().splitlines():
        key, _, value = line.strip().replace("=", " ", 1).partition(" ")
        if key and not key.startswith("#"):
            yield key, value.strip()


def _settings_in_arguments(text: str) -> Iterator[tuple[str, str]]:
    """The settings among the arguments of spark-submit."""
    for option, argument in pairwise(shlex.split(text)):
        if option in ("--conf", "-c") and "=" in argument:
            key, _, value = argument.partition("=")
            yield key, value
        elif option == "--master":
            yield "spark.master", argument
        elif option == "--driver-java-options":
            yield "spark.driver.extraJavaOptions", argument
        elif option == "--driver-class-path":
            yield _CLASS_PATH, argument
        elif option == "--jars":
            yield _JARS, argument
        elif option == "--repositories":
            yield _REPOSITORIES, argument
