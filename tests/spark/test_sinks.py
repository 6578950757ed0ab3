"""Sinks are plain values; what they do is in the run's tests."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import clash
from clash import sinks


def test_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sinks.Parquet("out/q1").url == f"{tmp_path}/out/q1"
    assert sinks.Parquet(tmp_path / "x").url == f"{tmp_path}/x"
    assert sinks.Parquet("s3://bucket/q1").url == "s3://bucket/q1"


@pytest.mark.parametrize(
    "make",
    [
        lambda: sinks.Parquet(""),
        lambda: sinks.Parquet(3),  # type: ignore[arg-type]
        lambda: sinks.Console(0),
        lambda: sinks.Console(rows="all"),  # type: ignore[arg-type]
        lambda: sinks.ForeachBatch("print"),  # type: ignore[arg-type]
        lambda: sinks.Kafka("a topic", servers="h:9092"),
        lambda: sinks.Kafka("t", servers=""),
        lambda: sinks.Kafka("t", servers="h"),
        lambda: sinks.Kafka("t", servers="h:9092", key=""),
        lambda: sinks.Kafka("t", servers="h:9092", format="csv"),  # type: ignore[arg-type]
        lambda: sinks.Kafka("t", servers="h:9092", headers=1),  # type: ignore[arg-type]
        lambda: sinks.Kafka("t", servers="h:9092", create=0),
        lambda: sinks.Kafka("t", servers="h:9092", wait=None),  # type: ignore[arg-type]
        lambda: sinks.Kafka("t", servers="h:9092", wait="long"),
        lambda: sinks.Kafka("t", servers="h:9092", lost_marker="hope"),  # type: ignore[arg-type]
        lambda: sinks.Kafka("t", servers="h:9092", options="x"),  # type: ignore[arg-type]
        lambda: sinks.Kafka("t", servers="h:9092", options={"transactional.id": "x"}),
        lambda: sinks.Postgres("", dsn="dbname=d"),
        lambda: sinks.Postgres("a.b.c", dsn="dbname=d"),
        lambda: sinks.Postgres("t", dsn="nonsense"),
        lambda: sinks.Postgres("t", dsn="dbname=d", create=1),  # type: ignore[arg-type]
        lambda: sinks.Postgres("t", dsn="dbname=d", options={"nonsense": "x"}),
    ],
)
def test_wrong_ones_are_refused(make: Any) -> None:
    with pytest.raises(clash.OptionError) as caught:
        make()
    assert caught.value.hint


def test_a_kafka_sink_shows_and_records_nothing_secret() -> None:
    sink = sinks.Kafka("t", servers="b:9092, a:9092", key="k", headers=True, options={"sasl.password": "secret-word"})
    assert "secret-word" not in repr(sink) + str(sink.record)
    assert sink.system == sinks.Kafka("u", servers="a:9092,b:9092").system
    assert sinks.Kafka.restore(sink.record).with_access_of(sink) == replace(sink, servers="b:9092,a:9092")
    assert hash(sink)


def test_without_the_client_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "find_spec", lambda name: None)
    with pytest.raises(clash.OptionError, match="the client for Kafka is not installed") as caught:
        sinks.Kafka("t", servers="h:9092")
    assert caught.value.hint == "pip install clash-on-spark[kafka]"


def test_sinks_need_no_spark() -> None:
    code = "import sys, clash; clash.sinks.Memory(); assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
