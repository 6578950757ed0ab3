"""What a user can get wrong is refused by name before Spark starts anything."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clash
from clash.errors import ClashError


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"workers": 0}, "workers"),
        ({"workers": True}, "workers"),
        ({"strategy": "best"}, "unknown strategy"),
        ({"cost": "all"}, "unknown cost model"),
        ({"layouts": 2}, "unknown layouts"),
        ({"mirs": 1}, "mirs"),
        ({"adaptive": "yes"}, "adaptive"),
        ({"epoch": 0}, "the epoch is out of range"),
        ({"epoch": "soon"}, "the epoch is not a duration"),
        ({"statistics": {"R": 1}}, "not a clash.Statistics"),
        ({"checkpoint": ""}, "not a folder"),
        ({"checkpoint": "memory:x"}, "not a folder"),
        ({"spark": "local[2]"}, "not a session"),
    ],
)
def test_options(spark: Any, checkpoint: str, options: dict[str, Any], what: str) -> None:
    with pytest.raises(clash.OptionError, match=what) as caught:
        clash.Engine(**({"spark": spark, "checkpoint": checkpoint} | options))
    assert caught.value.hint


def stream_of(spark: Any) -> Any:
    return spark.readStream.format("rate").load()


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda e, s: e.stream("T", s.range(3)), "not a stream"),
        (lambda e, s: e.stream("T", "rate"), "not a DataFrame"),
        (lambda e, s: e.stream("R", stream_of(s)), "a stream or table of that name"),
        (lambda e, s: e.stream("T", stream_of(s).selectExpr("value AS a", "value AS A")), "two columns of one name"),
        (lambda e, s: e.stream("T", stream_of(s), time="ts"), "time column"),
        (lambda e, s: e.stream("T", stream_of(s), time="timestamp", idle="1 minute"), "idle needs lateness"),
        (lambda e, s: e.stream("T", stream_of(s), window="long"), "window of stream T"),
        (lambda e, s: e.stream("T", stream_of(s).groupBy("value").count()), "keep state"),
        (lambda e, s: e.stream("T", stream_of(s).dropDuplicates(["value"]).where("value > 1")), "keep state"),
        (lambda e, s: e.stream("T", stream_of(s).limit(2)), "keep state"),
        (lambda e, s: e.stream("T", stream_of(s).join(stream_of(s).select("value"), "value")), "keep state"),
        (lambda e, s: e.query("q", "SELECT R.value FROM R JOIN X ON R.value = X.value"), "X|unknown"),
        (lambda e, s: e.query("q", "SELECT"), "query|SELECT"),
        (lambda e, s: e.query("q", "R(value), S(value)", sink="out/q"), "not a sink"),
        (lambda e, s: e.query("q", "R(value), S(value)", windows="1 second"), "windows are not a table"),
        (lambda e, s: e.query("first", "R(value), S(value)"), "a query of that name"),
        (lambda e, s: e.query("q", "R(value), S(value)", sink=clash.sinks.Parquet("out")), "one folder"),
        (lambda e, s: e.start(available_now=True, trigger="1 second"), "exclude"),
        (lambda e, s: e.start(trigger="often"), "the trigger"),
        (lambda e, s: e.start(available_now=1), "available_now"),
        (lambda e, s: clash.Engine(s, "x").query("q", "R(a), S(a)"), "no streams yet"),
        (lambda e, s: clash.Engine(s, "x").start(), "no query"),
    ],
)
def test_mistakes(
    spark: Any, checkpoint: str, ask: Callable[[Any, Any], object], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a start makes the checkpoint's folder, for its lock, before it looks for queries
    engine = clash.Engine(spark, checkpoint)
    for name in "RS":
        engine.stream(name, stream_of(spark))
    engine.query("first", "SELECT R.value FROM R JOIN S ON R.value = S.value", sink=clash.sinks.Parquet("out"))
    with pytest.raises(ClashError, match=what) as caught:
        ask(engine, spark)
    assert caught.value.hint


def test_what_keeps_no_state_may_stand_on_a_source(spark: Any, checkpoint: str) -> None:
    engine = clash.Engine(spark, checkpoint)
    engine.stream("filtered", stream_of(spark).where("value > 1").selectExpr("value", "explode(array(1, 2)) AS n"))
    engine.stream("enriched", stream_of(spark).withColumnRenamed("value", "id").join(spark.range(9).groupBy("id").count(), "id"))
    engine.stream("both", stream_of(spark).union(stream_of(spark)))


def test_what_a_user_may_not_expect_is_said(spark: Any, checkpoint: str, caplog: pytest.LogCaptureFixture) -> None:
    engine = clash.Engine(spark, checkpoint)
    with caplog.at_level(logging.WARNING, "clash"):
        engine.stream("plain", stream_of(spark), time="timestamp", window="1 minute", lateness="1 second")
        assert not caplog.messages
        engine.stream("endless", stream_of(spark), time="timestamp", window="1 minute")
        engine.stream("marked", stream_of(spark).withWatermark("timestamp", "1 minute"))
        engine.stream("socket", spark.readStream.format("socket").option("host", "localhost").option("port", 9).load())
    assert [message.split()[1] for message in caplog.messages] == ["endless", "marked", "socket"]


def test_a_query_with_and_without_event_times_is_said(spark: Any, checkpoint: str, caplog: pytest.LogCaptureFixture) -> None:
    """The time of a row without one is that of its batch: in a window it meets only rows of today."""
    engine = clash.Engine(spark, checkpoint)
    for name in ("timed", "also"):
        engine.stream(name, stream_of(spark), time="timestamp", lateness="1 second")
    for name in ("untimed", "neither"):
        engine.stream(name, stream_of(spark))
    with caplog.at_level(logging.WARNING, "clash"):
        engine.query("a", "timed(value), also(value)", windows={"timed": "1 minute"})
        engine.query("b", "untimed(value), neither(value)", windows={"untimed": "1 minute"})
        engine.query("c", "timed(value), untimed(value)")
        assert not caplog.messages
        engine.query("d", "timed(value), untimed(value)", windows={"untimed": "1 minute"})
    (message,) = caplog.messages
    assert message.startswith("query d joins timed by event time with untimed,")


@pytest.mark.parametrize("name", ["", "a b", "../x", 3, "ä"])
def test_a_name_is_one_of_a_query(spark: Any, checkpoint: str, name: Any) -> None:
    with pytest.raises(clash.OptionError, match="not a valid engine name"):
        clash.Engine(spark, checkpoint, name=name)
