"""A Parquet folder has one set of columns, whoever wrote to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clash.coordinator.control.changes import Changes
from clash.coordinator.coordinator import Driver
from clash.coordinator.control.job import Asked, Job, SinkRecord
from clash.errors import OptionError
from clash.inprocess import InProcess
from clash.model.stream import Stream

STREAMS = tuple(Stream.of(name, {"a": "bigint", "b": kind}) for name, kind in (("R", "bigint"), ("S", "string")))
NUMBERS = "SELECT R.a, R.b FROM R JOIN S ON R.a = S.a"
TEXTS = "SELECT R.a, S.b FROM R JOIN S ON R.a = S.a"
NARROW = "SELECT R.a FROM R JOIN S ON R.a = S.a"
ROWS = {"R": pa.table({"a": [1], "b": [2]}), "S": pa.table({"a": [1], "b": ["x"]})}


def asked(name: str, text: str, folder: Path) -> Asked:
    return Asked(name, text, (), SinkRecord("parquet", str(folder)))


def job(*queries: Asked) -> Job:
    return Job(STREAMS, queries, workers=1, epoch=1, adaptive=False)


@pytest.fixture
def run(tmp_path: Path) -> InProcess:
    """Query q writes to `out`; query other stays."""
    made = InProcess(STREAMS, {"other": NARROW}, uri=str(tmp_path / "state"), workers=1)
    made.driver.changes.add_query(asked("q", NUMBERS, tmp_path / "out"))
    made.batch(ROWS)
    return made


def refused(call: Callable[[], object], *told: str) -> None:
    with pytest.raises(OptionError, match="results with other columns") as caught:
        call()
    assert all(word in caught.value.detail for word in told)
    assert "another folder" in caught.value.hint


@pytest.mark.parametrize("text", [TEXTS, NARROW])
@pytest.mark.parametrize(
    "ask",
    [
        lambda changes, text, out: changes.replace_query(asked("q", text, out)),
        lambda changes, text, out: (changes.remove_query("q"), changes.add_query(asked("p", text, out))),
        lambda changes, text, out: (changes.remove_query("q"), changes.add_query(asked("q", text, out / ".." / "out"))),
    ],
)
def test_of_a_live_query(run: InProcess, tmp_path: Path, ask: Callable[[Changes, str, Path], object], text: str) -> None:
    refused(lambda: ask(run.driver.changes, text, tmp_path / "out"), "a int64, b int64", str(tmp_path / "out"))
    run.batch(ROWS)
    assert "other" in run.driver.generation.setup.names
    assert pq.read_table(tmp_path / "out", partitioning=None).column_names == ["a", "b"]


def test_of_a_query_that_waits(run: InProcess, tmp_path: Path) -> None:
    """Nothing is written yet, but will be."""
    changes = run.driver.changes
    changes.add_query(asked("p", NUMBERS, tmp_path / "new"))
    refused(lambda: changes.replace_query(asked("p", TEXTS, tmp_path / "new")), "query p")


def test_of_one_that_is_gone(run: InProcess, tmp_path: Path) -> None:
    changes = run.driver.changes
    changes.remove_query("q")
    run.batch(ROWS)
    refused(lambda: changes.add_query(asked("p", TEXTS, tmp_path / "out")), "files", "b string")
    changes.add_query(asked("p", NUMBERS, tmp_path / "out"))
    run.batch(ROWS)
    assert pq.read_table(tmp_path / "out", partitioning=None).num_rows == 1 + 3  # R.b was not kept meanwhile
    changes.remove_query("p")
    run.batch(ROWS)
    for file in (tmp_path / "out").glob("*.parquet"):
        file.unlink()
    changes.add_query(asked("p", TEXTS, tmp_path / "out"))  # the user has made room


def test_two_live_ones(run: InProcess, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="write to one folder"):
        run.driver.changes.add_query(asked("p", NUMBERS, tmp_path / "out"))


def test_a_changed_program(run: InProcess, tmp_path: Path) -> None:
    """Another query, or the same one moved to a folder that another one left: refused before anything runs."""
    other, out = Asked("other", NARROW), tmp_path / "out"
    refused(lambda: run.restart(job(other, asked("q", TEXTS, out))), "query q")
    refused(lambda: run.restart(job(asked("other", NARROW, out), asked("q", NUMBERS, tmp_path / "elsewhere"))), "query other gives a int64")
    run.restart(job(other, asked("q", NUMBERS, out)))
    run.batch(ROWS)
    assert pq.read_table(out, partitioning=None).num_rows == 4


def test_another_checkpoint(run: InProcess, tmp_path: Path) -> None:
    refused(lambda: Driver(str(tmp_path / "anew"), job(asked("q", TEXTS, tmp_path / "out"))), "files")
    assert not (tmp_path / "anew" / "job.json").exists()
    Driver(str(tmp_path / "anew"), job(asked("q", NUMBERS, tmp_path / "out")))


def test_what_others_left_is_not_judged(run: InProcess, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    pq.write_table(pa.table({"z": [1]}), tmp_path / "theirs" / "part-0.parquet")
    (tmp_path / "theirs" / "part-000000001-0123abcd-torn.parquet").write_bytes(b"PAR1")
    run.driver.changes.add_query(asked("p", TEXTS, tmp_path / "theirs"))
