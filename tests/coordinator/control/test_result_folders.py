"""A Parquet folder has one set of columns, whichever query wrote to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clash.coordinator.control.changes import Changes
from clash.coordinator.control.job import JobSpec, QueryRequest, SinkSpec
from clash.coordinator.coordinator import Coordinator
from clash.errors import CheckpointError, OptionError
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream

STREAMS = tuple(Stream.of(name, {"a": "bigint", "b": kind}) for name, kind in (("R", "bigint"), ("S", "string")))
NUMBERS = "SELECT R.a, R.b FROM R JOIN S ON R.a = S.a"
TEXTS = "SELECT R.a, S.b FROM R JOIN S ON R.a = S.a"
NARROW = "SELECT R.a FROM R JOIN S ON R.a = S.a"
ROWS = {"R": pa.table({"a": [1], "b": [2]}), "S": pa.table({"a": [1], "b": ["x"]})}


def request(name: str, text: str, folder: Path) -> QueryRequest:
    return QueryRequest(name, text, (), SinkSpec("parquet", str(folder)))


def job(*queries: QueryRequest) -> JobSpec:
    return JobSpec(STREAMS, queries, workers=1, epoch=1, adaptive=False)


@pytest.fixture
def run(tmp_path: Path) -> InProcessEngine:
    """Query q writes to `out`; query other stays."""
    engine = InProcessEngine(STREAMS, {"other": NARROW}, uri=str(tmp_path / "state"), workers=1)
    engine.coordinator.changes.add_query(request("q", NUMBERS, tmp_path / "out"))
    engine.batch(ROWS)
    return engine


def refused(call: Callable[[], object], *details: str) -> None:
    with pytest.raises(OptionError, match="results with other columns") as caught:
        call()
    assert all(word in caught.value.detail for word in details)
    assert "another folder" in caught.value.hint


@pytest.mark.parametrize("text", [TEXTS, NARROW])
@pytest.mark.parametrize(
    "call",
    [
        lambda changes, text, out: changes.replace_query(request("q", text, out)),
        lambda changes, text, out: (changes.remove_query("q"), changes.add_query(request("p", text, out))),
        lambda changes, text, out: (changes.remove_query("q"), changes.add_query(request("q", text, out / ".." / "out"))),
    ],
)
def test_a_folder_of_a_live_query(run: InProcessEngine, tmp_path: Path, call: Callable[[Changes, str, Path], object], text: str) -> None:
    refused(lambda: call(run.coordinator.changes, text, tmp_path / "out"), "a int64, b int64", str(tmp_path / "out"))
    run.batch(ROWS)
    assert "other" in run.coordinator.generation.setup.query_names
    assert pq.read_table(tmp_path / "out", partitioning=None).column_names == ["a", "b"]


def test_a_folder_of_a_query_that_waits(run: InProcessEngine, tmp_path: Path) -> None:
    """Nothing is written yet, but will be."""
    changes = run.coordinator.changes
    changes.add_query(request("p", NUMBERS, tmp_path / "new"))
    refused(lambda: changes.replace_query(request("p", TEXTS, tmp_path / "new")), "query p")


def test_a_folder_of_a_removed_query(run: InProcessEngine, tmp_path: Path) -> None:
    changes = run.coordinator.changes
    changes.remove_query("q")
    run.batch(ROWS)
    refused(lambda: changes.add_query(request("p", TEXTS, tmp_path / "out")), "files", "b string")
    with pytest.raises(CheckpointError, match="belongs to another query") as caught:
        changes.add_query(request("p", NUMBERS, tmp_path / "out"))
    assert "results of query q" in caught.value.detail
    changes.add_query(request("q", NUMBERS, tmp_path / "out"))
    run.batch(ROWS)
    assert pq.read_table(tmp_path / "out", partitioning=None).num_rows == 1 + 3  # R.b was not retained meanwhile
    changes.remove_query("q")
    run.batch(ROWS)
    for file in (tmp_path / "out").glob("*.parquet"):
        file.unlink()
    changes.add_query(request("p", TEXTS, tmp_path / "out"))  # the user has emptied the folder


def test_two_live_queries(run: InProcessEngine, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="write to one folder"):
        run.coordinator.changes.add_query(request("p", NUMBERS, tmp_path / "out"))


def test_a_changed_program(run: InProcessEngine, tmp_path: Path) -> None:
    """Another query, or the same one moved to a folder that another one left: refused before anything runs."""
    other, out = QueryRequest("other", NARROW), tmp_path / "out"
    refused(lambda: run.restart(job(other, request("q", TEXTS, out))), "query q")
    refused(
        lambda: run.restart(job(request("other", NARROW, out), request("q", NUMBERS, tmp_path / "elsewhere"))), "query other gives a int64"
    )
    run.restart(job(other, request("q", NUMBERS, out)))
    run.batch(ROWS)
    assert pq.read_table(out, partitioning=None).num_rows == 4


def test_another_checkpoint(run: InProcessEngine, tmp_path: Path) -> None:
    refused(lambda: Coordinator(str(tmp_path / "anew"), job(request("q", TEXTS, tmp_path / "out"))), "files")
    assert not (tmp_path / "anew" / "job.json").exists()
    with pytest.raises(CheckpointError, match="belongs to another checkpoint"):
        Coordinator(str(tmp_path / "anew"), job(request("q", NUMBERS, tmp_path / "out")))
    assert not (tmp_path / "anew").exists()


def test_files_of_others_are_not_judged(run: InProcessEngine, tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    pq.write_table(pa.table({"z": [1]}), tmp_path / "others" / "part-0.parquet")
    (tmp_path / "others" / "part-00000-0123abcd-torn.snappy.parquet").write_bytes(b"PAR1")
    run.coordinator.changes.add_query(request("p", TEXTS, tmp_path / "others"))
