"""Engines of job files, in a Spark session: the calls that a program would make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clash.errors import ClashError
from clash.job.build import build_engine
from clash.job.declared import declare
from clash.job.load import parse_job

RECORD = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}, {"name": "f", "type": "string"}]}'
JOB = f"""
name: shop
checkpoint: ./state
kafka: {{ servers: "host:9092", starting: latest, max_rows: 100, on_loss: continue, options: {{ client.id: me }} }}
streams:
  R: {{ format: parquet, path: ./in, schema: "a long, b string, ts timestamp", time: ts, window: 1 minute, lateness: 1 second, keep: all }}
  J: {{ format: json, path: ./in, schema: "a long, c string", options: {{ maxFilesPerTrigger: 1, multiLine: false }} }}
  clock: {{ format: rate, options: {{ rowsPerSecond: 5 }} }}
  K: {{ format: kafka, topic: k, schema: "a long, d string", key: key, timestamp: at }}
  C: {{ format: kafka, topic: c, value: csv, separator: ";", schema: "a long, e string", bad: fail }}
  V: {{ format: kafka, topic: v, value: avro, schema: '{RECORD}', servers: "other:9092" }}
  W: {{ format: kafka, topic: w, value: raw }}
tables:
  names: {{ format: json, path: ./names, schema: "a long, name string", refresh: 10 minutes }}
queries:
  named: {{ sql: "SELECT R.b, n.name FROM R JOIN names n ON R.a = n.a" }}
  q: {{ sql: "SELECT R.b, K.d FROM R JOIN K ON R.a = K.a", windows: {{ K: 5 seconds }}, sink: {{ parquet: out/q }} }}
  p: {{ sql: "SELECT C.e, V.f, J.c FROM C JOIN V ON C.a = V.a JOIN J ON C.a = J.a" }}
  counted: {{ sql: "SELECT R.b, count(*) AS n FROM R JOIN J ON R.a = J.a GROUP BY R.b", mode: update, sink: memory }}
engine: {{ workers: 3, epoch: 5, adaptive: false, strategy: shared }}
"""


def build(text: str, spark: Any, folder: Path) -> Any:
    for name in ("in", "names"):
        (folder / name).mkdir(exist_ok=True)
    file = parse_job(text, folder / "job.yaml", {})
    return build_engine(file, spark, declare(file))


def test_every_kind_of_stream_and_query(spark: Any, tmp_path: Path) -> None:
    engine = build(JOB, spark, tmp_path)
    assert [*engine._streams] == ["R", "J", "clock", "K", "C", "V", "W", "names"]
    assert engine._streams["names"].is_table
    assert dict(engine._streams["K"].columns) == {"a": "bigint", "d": "string", "key": "binary", "at": "timestamp"}
    assert engine._streams["R"].keep == "all"
    kafka, other = engine._frames["K"].source, engine._frames["V"].source
    assert engine._frames["C"].source is kafka
    assert other is not kafka
    assert (kafka.starting, kafka.max_rows, kafka.on_loss) == ("latest", 100, "continue")
    assert dict(kafka.options)["client.id"] == "me"
    assert "client.id" not in dict(other.options)  # of another cluster
    assert engine._frames["C"].bad == "fail"
    assert (engine._name, engine._workers, engine._epoch, engine._adaptive, engine._strategy) == ("shop", 3, 5, False, "shared")
    assert engine._requests["q"].windows == (("K", "5 seconds"),)
    assert engine._requests["q"].sink.path == str(tmp_path / "out/q")
    assert engine._requests["counted"].outer.mode == "update"


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("format: json", "format: jsn", "line 7, streams.J"),
        ("path: ./in, schema: \"a long, c string\"", "path: ./nothing, schema: \"a long, c string\"", "line 7, streams.J"),
        ("rowsPerSecond: 5", "rowsPerSecond: x", "line 8, streams.clock"),
    ],
)  # fmt: skip
def test_what_spark_refuses_names_its_place(spark: Any, tmp_path: Path, old: str, new: str, place: str) -> None:
    with pytest.raises(ClashError) as caught:
        build(JOB.replace(old, new), spark, tmp_path)
    assert place in caught.value.detail
    assert caught.value.what == "Spark cannot read the stream"
