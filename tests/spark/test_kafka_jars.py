"""The jars of Spark's Kafka connector: found or fetched, and only those that belong together."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pyspark
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

import clash
from clash.spark import configure as configure_module
from clash.spark.kafka_jars import NAMES, fetch_jars, find_jars

JARS = {
    "org/apache/spark": ("spark-sql-kafka-0-10_2.13", "4.2.0"),
    "org/apache/spark/": ("spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    "org/apache/kafka": ("kafka-clients", "3.9.2"),
    "org/apache/commons": ("commons-pool2", "2.13.1"),
}
BUILT_WITH = """
  - Apache Kafka (https://kafka.apache.org) org.apache.kafka:kafka-clients:jar:3.9.2
  - Tokens (https://spark.apache.org/) org.apache.spark:spark-token-provider-kafka-0-10_2.13:jar:4.2.0
  - Pool (https://commons.apache.org/) org.apache.commons:commons-pool2:jar:2.13.1
"""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><dependencies>
<dependency><artifactId>kafka-clients</artifactId><version>3.9.2</version></dependency>
<dependency><artifactId>commons-pool2</artifactId><version>2.13.1</version></dependency>
<dependency><artifactId>kafka_2.13</artifactId><version>3.9.2</version></dependency>
</dependencies></project>"""


def write_jar(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/DEPENDENCIES", BUILT_WITH)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, version in JARS.values():
        write_jar(tmp_path / "jars" / f"{name}-{version}.jar")
    return tmp_path / "jars"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A Maven repository in a folder. Its newest connector is for another Spark, and it lacks the newest token provider."""
    root = tmp_path / "repository"
    for group, (name, version) in JARS.items():
        jar = root / group / name / version / f"{name}-{version}.jar"
        write_jar(jar)
        Path(f"{jar}.sha1").write_text(hashlib.sha1(jar.read_bytes()).hexdigest())
        versions = {"spark-sql-kafka-0-10_2.13": ("4.1.1", "4.2.0-preview5", "4.2.0", "4.3.0")}.get(name, (version, "4.2.0-preview1"))
        tags = "".join(f"<version>{each}</version>" for each in versions)
        (root / group / name / "maven-metadata.xml").write_text(
            f"<metadata><versioning><versions>{tags}</versions></versioning></metadata>"
        )
    (root / "org/apache/spark/spark-sql-kafka-0-10_2.13/4.2.0/spark-sql-kafka-0-10_2.13-4.2.0.pom").write_text(POM)
    return root


def test_four_that_belong_together(folder: Path) -> None:
    assert [path.name.rpartition("-")[0].removesuffix("_2.13") for path in find_jars(folder, "4.2.1").values()] == list(NAMES)


@pytest.mark.parametrize(
    ("change", "what", "detail"),
    [
        ({"commons-pool2-2.13.1.jar": None}, "jars of the Kafka connector are missing", "commons-pool2 in "),
        (
            {"kafka-clients-3.9.2.jar": "kafka-clients-2.8.0.jar"},
            "the jars of the Kafka connector do not belong together",
            "kafka-clients 3.9.2",
        ),
        (
            {"spark-sql-kafka-0-10_2.13-4.2.0.jar": "spark-sql-kafka-0-10_2.13-4.1.0.jar"},
            "the Kafka connector is for another Spark",
            "spark-sql-kafka-0-10_2.13-4.1.0.jar, but Spark is 4.2.1",
        ),
        (
            {"spark-sql-kafka-0-10_2.13-4.2.0.jar": "spark-sql-kafka-0-10_2.12-4.2.0.jar"},
            "a jar of the Kafka connector is for another Scala",
            "spark-sql-kafka-0-10_2.12-4.2.0.jar",
        ),
    ],
)
def test_what_is_wrong_is_named(folder: Path, change: dict[str, str | None], what: str, detail: str) -> None:
    for name, other in change.items():
        (folder / name).unlink() if other is None else (folder / name).rename(folder / other)
    with pytest.raises(clash.OptionError) as caught:
        find_jars(folder, "4.2.1")
    assert caught.value.what == what
    assert detail in caught.value.detail
    assert caught.value.hint


def test_two_versions_and_no_jar(folder: Path) -> None:
    write_jar(folder / "kafka-clients-3.9.1.jar")
    with pytest.raises(clash.OptionError, match="several versions"):
        find_jars(folder, "4.2.1")
    (folder / "kafka-clients-3.9.1.jar").unlink()
    (folder / "spark-sql-kafka-0-10_2.13-4.2.0.jar").write_text("<html>")
    with pytest.raises(clash.OptionError, match="cannot be read"):
        find_jars(folder, "4.2.1")
    with pytest.raises(clash.OptionError, match="does not exist"):
        find_jars(folder / "nowhere", "4.2.1")


def test_the_newest_of_the_minor_version_is_fetched_once(repository: Path, tmp_path: Path) -> None:
    jars = fetch_jars(tmp_path / "cache", "4.2.1", repository.as_uri())
    assert sorted(path.name for path in jars.values()) == sorted(f"{name}-{version}.jar" for name, version in JARS.values())
    assert fetch_jars(tmp_path / "cache", "4.2.1", "file:///nowhere") == jars


def test_what_cannot_be_fetched_is_named(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(clash.OptionError, match="there is no Kafka connector for Spark"):
        fetch_jars(tmp_path / "cache", "4.9.0", repository.as_uri())
    with pytest.raises(clash.OptionError, match="cannot be fetched") as caught:
        fetch_jars(tmp_path / "cache", "4.2.1", "http://127.0.0.1:9/maven2")
    assert "spark.jars.repositories" in caught.value.hint
    (repository / "org/apache/kafka/kafka-clients/3.9.2/kafka-clients-3.9.2.jar").write_text("half")
    with pytest.raises(clash.OptionError, match="checksum"):
        fetch_jars(tmp_path / "cache", "4.2.1", repository.as_uri())


def test_configure_adds_them_to_those_of_the_user(folder: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(SparkContext, "_jvm", None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(pyspark, "__version__", "4.2.1")
    builder = SparkSession.Builder().master("local[2]").config("spark.jars", "/mine.jar")
    options = clash.configure(builder, kafka=folder)._options
    assert options["spark.jars"].split(",")[0] == "/mine.jar"
    assert len(options["spark.jars"].split(",")) == 5
    assert options["spark.driver.extraClassPath"].endswith("clash-spark.jar")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--repositories {repository.as_uri()} --jars /other.jar pyspark-shell")
    options = clash.configure(SparkSession.Builder().master("local[2]"), kafka=True)._options
    assert options["spark.jars"].startswith("/other.jar,")
    assert str(tmp_path / "cache" / "clash") in options["spark.jars"]
    for wrong in ("", 3):
        with pytest.raises(clash.OptionError, match="neither True nor a folder"):
            clash.configure(SparkSession.Builder(), kafka=wrong)  # type: ignore[arg-type]


def test_a_jvm_that_runs_must_have_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.2.1")
    monkeypatch.setattr(configure_module, "_has_jvm", lambda: True)
    monkeypatch.setattr(configure_module, "_settings_outside_builder", dict)
    monkeypatch.setattr(configure_module, "_jvm_has_class", lambda name: False)
    with pytest.raises(clash.OptionError, match="Spark runs already") as caught:
        clash.configure(SparkSession.Builder().master("local[2]"), kafka=folder)
    assert "spark-submit --jars" in caught.value.hint
    monkeypatch.setattr(configure_module, "_jvm_has_class", lambda name: True)
    assert "spark.jars" not in clash.configure(SparkSession.Builder().master("local[2]"), kafka=folder)._options
