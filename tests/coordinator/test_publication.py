"""Committed results are published, or their loss is an error: never silence."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from clash.coordinator.control.job import QueryRequest, SinkSpec
from clash.errors import StateError
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash.state.storage import open_storage

STREAMS = [Stream.of(name, {"a": "bigint", "ts": "timestamp"}, time="ts", window="9 s", lateness="1 s") for name in "RS"]
TEXT = "SELECT R.a FROM R JOIN S ON R.a = S.a"


def rows(second: int) -> dict[str, pa.Table]:
    times = pa.array([second * 1_000_000] * 2, pa.timestamp("us", "UTC"))
    return {"R": pa.table({"a": [1, 2], "ts": times}), "S": pa.table({"a": [1, 3], "ts": times})}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InProcessEngine:
    """A run that was killed between the commit of batch 1 and the publication of its results and late rows."""
    engine = InProcessEngine(STREAMS, {"q": TEXT}, uri=str(tmp_path / "c"), workers=1)
    engine.coordinator.changes.add_query(QueryRequest("p", TEXT, (), SinkSpec("parquet", str(tmp_path / "out"))))
    engine.batch(rows(100))
    monkeypatch.setenv("CLASH_FAILPOINT", "after-manifest!raise")
    with pytest.raises(RuntimeError):
        engine.batch({"R": rows(100)["R"], "S": rows(1)["S"]})
    monkeypatch.delenv("CLASH_FAILPOINT")
    return engine


def test_a_start_publishes_what_is_staged_even_if_spark_does_not_repeat_the_batch(run: InProcessEngine) -> None:
    """As in a copy of a running job: its result folder was copied before Spark's commit."""
    run.restart()
    run.batch(rows(100))
    assert run.results("q").num_rows == 1 + 1 + 4
    assert run.late("S").num_rows == 2


def test_what_is_staged_is_published_after_a_restart(run: InProcessEngine) -> None:
    run.restart()
    assert run.coordinator.last == 1
    assert run.coordinator.begin(1, 0, 1) is None
    committed = run.coordinator.publish(1)
    assert [len(committed.results[query]) for query in ("q", "p")] == [1, 1]
    assert run.results("q").num_rows == 2
    assert run.results("p").num_rows == 2
    assert run.late("S").num_rows == 2
    assert run.coordinator.publish(1) == committed


@pytest.mark.parametrize(
    ("folder", "whose", "file"),
    [
        ("c/results/q", "query q", "c/results/q/part-000000001-"),
        ("out", "query p", "out/part-0"),
        ("c/late/S", "stream S", "c/late/S/part-0"),
    ],
)
def test_a_file_that_is_neither_staged_nor_published_is_lost(
    run: InProcessEngine, tmp_path: Path, folder: str, whose: str, file: str
) -> None:
    shutil.rmtree(tmp_path / folder / "_staging")
    run.restart()
    with pytest.raises(StateError, match="a file of committed results is lost") as caught:
        run.coordinator.publish(1)
    assert whose in caught.value.detail
    assert "batch 1" in caught.value.detail
    assert str(tmp_path / file) in caught.value.detail
    assert "one copy" in caught.value.hint


def test_a_replaced_query_is_published_to_the_folder_of_its_batch(run: InProcessEngine, tmp_path: Path) -> None:
    """Spark may repeat a batch whose commit it lost, when the next one is decided already."""
    run.restart()
    run.coordinator.changes.replace_query(QueryRequest("p", TEXT, (("R", "1 s"),), SinkSpec("parquet", str(tmp_path / "new"))))
    assert run.coordinator.begin(2, 0, 1) is not None
    run.restart()
    assert [Path(path).parent.name for path in run.coordinator.publish(1).results["p"]] == ["out"]


def with_function(folder: Path) -> InProcessEngine:
    engine = InProcessEngine(STREAMS, {"q": TEXT}, uri=str(folder / "c"), workers=1)
    engine.coordinator.changes.add_query(QueryRequest("f", TEXT, (), SinkSpec("foreach")))
    engine.batch(rows(100))
    return engine


def test_files_for_a_function_that_are_lost_before_it_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = with_function(tmp_path)
    monkeypatch.setenv("CLASH_FAILPOINT", "after-manifest!raise")
    with pytest.raises(RuntimeError):
        engine.batch(rows(100))
    monkeypatch.delenv("CLASH_FAILPOINT")
    shutil.rmtree(tmp_path / "c/handover/f/_staging")
    engine.restart()
    with pytest.raises(StateError, match="a file of committed results is lost") as caught:
        engine.coordinator.publish(1)
    assert "query f, batch 1" in caught.value.detail
    assert "put a file" not in caught.value.hint


@pytest.mark.parametrize("point", ["before-record", "after-record", "before-manifest"])
@pytest.mark.parametrize("is_changed", [False, True], ids=["the same program", "a changed program"])
def test_files_for_a_function_stay_until_the_next_batch_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, is_changed: bool
) -> None:
    """Spark may repeat a batch whose commit it lost: the function gets the same rows again, or has had them."""
    engine = with_function(tmp_path)
    assert len(engine.coordinator.publish(0).results["f"]) == 1
    monkeypatch.setenv("CLASH_FAILPOINT", f"{point}!raise")
    with pytest.raises(RuntimeError):
        engine.batch(rows(101))
    monkeypatch.delenv("CLASH_FAILPOINT")
    engine.restart(replace(engine.job, workers=2) if is_changed else None)
    assert len(engine.coordinator.publish(0).results["f"]) == (0 if point == "before-manifest" else 1)
    engine.batch(rows(101))
    assert len(engine.coordinator.publish(1).results["f"]) == 1
    assert [name for name in open_storage(engine.uri).list("handover/f") if "part-000000000" in name] == []
