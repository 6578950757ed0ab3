"""A job file against a checkpoint of its job: what a start would change, what it would cost, and what it would refuse."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from clash.errors import ClashError
from clash.inprocess.engine import InProcessEngine
from clash.job.declared import declare
from clash.job.difference import Difference, compare_with_checkpoint
from clash.job.load import load_job

JOB = """\
name: shop
checkpoint: ./state
streams:
  R: { format: parquet, path: in/R, schema: "a long, b long, ts timestamp", time: ts, window: 1 minute, lateness: 5 seconds }
  S: { format: parquet, path: in/S, schema: "a long, b long, ts timestamp", time: ts, window: 1 minute, lateness: 5 seconds }
  T: { format: parquet, path: in/T, schema: "a long, b long, ts timestamp", time: ts, window: 1 minute, lateness: 5 seconds }
tables:
  names: { format: parquet, path: names, schema: "a long, name string" }
queries:
  kept: { sql: "SELECT R.b FROM R JOIN S ON R.a = S.a" }
  other: { sql: "SELECT S.b FROM S JOIN T ON S.a = T.a" }
  named: { sql: "SELECT R.b, names.name FROM R JOIN names ON R.a = names.a" }
engine: { workers: 2, epoch: 1, adaptive: false }
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job file whose job has run: one batch is committed."""
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    declared = declare(load_job(path))
    engine = InProcessEngine(
        tuple(declared.streams.values()), declared.queries, uri=f"{tmp_path}/state/clash", epoch=1,
        tables={"names": pa.table({"a": [1], "name": ["one"]})},
    )  # fmt: skip
    rows = pa.table({"a": [1, 2], "b": [3, 4], "ts": pa.array([1_000_000, 2_000_000], pa.timestamp("us", tz="UTC"))})
    engine.batch(dict.fromkeys("RST", rows), now=3_000_000)
    engine.coordinator.replanner.close()
    return path


def compare(job: Path, *changes: tuple[str, str]) -> Difference:
    text = JOB
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    job.write_text(text)
    file = load_job(job)
    return compare_with_checkpoint(file, declare(file))


def test_the_same_file_changes_nothing(job: Path) -> None:
    assert compare(job) == Difference(False)


def test_an_added_query_is_priced_beside_those_that_stay(job: Path) -> None:
    added = compare(job, ("queries:\n", 'queries:\n  twin: { sql: "SELECT R.b FROM R JOIN S ON R.a = S.a" }\n'))
    assert added.changes == ["query twin added"]
    (cost,) = added.costs
    assert (cost.query, cost.new_stores) == ("twin", ())
    assert cost.marginal == pytest.approx(0)
    assert cost.alone > 0
    assert cost.before > 0


def test_a_replaced_and_a_removed_query(job: Path) -> None:
    changed = compare(job, ("SELECT S.b FROM S JOIN T ON S.a", "SELECT T.b FROM S JOIN T ON S.b"))
    assert changed.changes == ["query other replaced"]
    assert [cost.query for cost in changed.costs] == ["other"]
    without = JOB[JOB.index("  other:") : JOB.index("  named:")]
    removed = compare(job, (without, ""))
    assert removed.changes == ["query other removed"]
    assert removed.costs == []


def test_an_added_and_a_changed_stream(job: Path) -> None:
    line = next(line for line in JOB.splitlines(keepends=True) if line.startswith("  T:"))
    added = compare(job, (line, line + line.replace("T:", "U:").replace("in/T", "in/U")))
    assert added.changes == ["stream U added"]
    changed = compare(job, (line, line.replace("1 minute", "2 minutes")))
    assert len(changed.changes) == 1
    assert "stream T" in changed.changes[0]
    assert changed.costs == []


def test_a_stream_without_a_schema_has_the_recorded_one(job: Path) -> None:
    schema = 'path: in/R, schema: "a long, b long, ts timestamp"'
    assert compare(job, (schema, "path: in/R")) == Difference(False)
    line = next(line for line in JOB.splitlines(keepends=True) if line.startswith("  T:"))
    unknown = line.replace("T:", "U:").replace('schema: "a long, b long, ts timestamp", ', "")
    added = compare(job, (line, line + unknown), ("queries:\n", 'queries:\n  more: { sql: "SELECT R.b FROM R JOIN U ON R.a = U.a" }\n'))
    assert sorted(added.changes) == ["query more added or replaced", "stream U added"]
    assert added.unpriced == {"more": "U has no schema in the file"}


def test_a_table_without_a_schema_has_the_recorded_one(job: Path) -> None:
    assert compare(job, (', schema: "a long, name string" }', " }")) == Difference(False)


def test_another_number_of_workers(job: Path) -> None:
    assert compare(job, ("workers: 2", "workers: 4")).changes == ["workers 2 → 4"]


def test_what_a_start_would_refuse(job: Path) -> None:
    with pytest.raises(ClashError) as caught:
        compare(job, ('path: in/S, schema: "a long,', 'path: in/S, schema: "a int,'))
    assert "S" in caught.value.detail
    assert caught.value.hint
