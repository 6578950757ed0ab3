"""Settings: ours where the user has none. No JVM is started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

import clash
from clash.spark import configure as module
from clash.spark.configure import is_local, settings

JAVA = "spark.driver.extraJavaOptions"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not touched Spark yet."""
    for name in ("SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(SparkContext, "_jvm", None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)


def test_ours_where_the_user_has_none() -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.sql.adaptive.enabled", "true")
    assert clash.configure(builder) is builder
    assert builder._options["spark.sql.adaptive.enabled"] == "true"
    assert builder._options["spark.python.unix.domain.socket.enabled"] == "true"
    assert builder._options["spark.hadoop.fs.file.impl"] == "clash.spark.LocalFiles"
    assert Path(builder._options["spark.driver.extraClassPath"]).is_file()


def test_classes_of_ours_are_used_where_they_are_on_the_class_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where the user has a class path, and not where a JVM runs."""
    given = clash.configure(SparkSession.Builder().master("local[2]").config("spark.driver.extraClassPath", "/a.jar"))._options
    assert given["spark.driver.extraClassPath"] == "/a.jar"
    assert "spark.hadoop.fs.file.impl" not in given
    assert "spark.driver.extraClassPath" not in clash.configure(SparkSession.Builder().master("spark://h:7077"))._options
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-class-path /a.jar pyspark-shell")
    assert "spark.hadoop.fs.file.impl" not in clash.configure(SparkSession.Builder().master("local[2]"))._options
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
    monkeypatch.setattr(module, "_has_jvm", lambda: True)
    monkeypatch.setattr(module, "_settings_outside_builder", dict)
    running = clash.configure(SparkSession.Builder().master("local[2]"))._options
    assert not {"spark.hadoop.fs.file.impl", "spark.driver.extraClassPath"} & set(running)


def test_files_and_arguments_count_as_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"# ours\nspark.shuffle.compress true\n{JAVA}=-Xss4m -XX:+UseZGC\n\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.broadcast.compress=true --master local[3] pyspark-shell")
    options = clash.configure(SparkSession.builder)._options
    assert not {"spark.shuffle.compress", JAVA, "spark.broadcast.compress"} & set(options)
    assert MANAGER in options
    assert dict(module._settings_in_file())[JAVA] == "-Xss4m -XX:+UseZGC"


def test_a_local_session_listens_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert clash.configure(SparkSession.Builder().master("local[2]"))._options["spark.driver.bindAddress"] == "127.0.0.1"
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    monkeypatch.setenv("SPARK_LOCAL_IP", "0.0.0.0")
    assert "spark.driver.host" not in clash.configure(SparkSession.Builder().master("local[2]"))._options
    monkeypatch.delenv("SPARK_LOCAL_IP")
    assert "spark.driver.host" not in clash.configure(SparkSession.Builder().master("spark://h:7077"))._options
    assert "SPARK_LOCAL_IP" not in os.environ


def test_a_cluster_keeps_its_file_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [
        master for master in ("local", "local[2]", "local[*,3]", "local-cluster[2,1,1024]", "yarn", "spark://h:7077") if is_local(master)
    ] == [
        "local",
        "local[2]",
        "local[*,3]",
    ]
    assert not {"spark.hadoop.fs.file.impl", MANAGER, "spark.shuffle.compress"} & set(settings("yarn"))
    assert settings("yarn")["spark.stage.maxConsecutiveAttempts"] == "1"


def test_the_file_manager_moved() -> None:
    assert module._checkpointing_package("4.0.1").endswith(".streaming")
    assert module._checkpointing_package("4.2.1").endswith(".streaming.checkpointing")


def test_not_a_builder() -> None:
    with pytest.raises(clash.OptionError, match="not a builder"):
        clash.configure(object())
