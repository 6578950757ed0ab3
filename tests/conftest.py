"""Shared by all tests: how hard hypothesis tries (HYPOTHESIS_PROFILE=dev looks for new examples on each run), and one Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.servers import HdfsServer, KafkaServer, PostgresServer, S3Server, find
from tests.task_choice import alternate

settings.register_profile(
    "ci", derandomize=True, deadline=None, database=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("dev", deadline=None, max_examples=500, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def java() -> None:
    """`make` sets JAVA_HOME; so does this, for a bare pytest."""
    if "JAVA_HOME" not in os.environ:
        script = Path(__file__).parents[1] / "scripts" / "java.sh"
        found = subprocess.run([script, "find"], capture_output=True, text=True, check=False).stdout.strip()
        if found:
            os.environ["JAVA_HOME"] = found


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two cores, our settings, and Spark's Kafka connector and functions for Avro, which only tests of Kafka and of Avro use."""
    from pyspark.sql import SparkSession

    import clash

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
    builder.config("spark.local.dir", str(tmp_path_factory.mktemp("spark"))).config("spark.sql.session.timeZone", "UTC")
    builder.config("spark.jars", str(find("spark-avro") or ""))
    session = clash.configure(builder, kafka=find("kafka-connector") or False).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    alternate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real object store, with an empty bucket named `bucket`, to which the environment points."""
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server
    server.stop()


@pytest.fixture(scope="session")
def hdfs_server(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """A real HDFS."""
    server = HdfsServer(tmp_path_factory.mktemp("hdfs"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def kafka_server(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A real broker without topics. A test that stops it starts it again."""
    server = KafkaServer(tmp_path_factory.mktemp("kafka"), secured=shutil.which("openssl") is not None)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A real PostgreSQL. A test that stops it starts it again."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()
