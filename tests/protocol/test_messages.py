"""What tasks and the coordinator exchange is the same on the other side."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from clash.columnar.block import Block
from clash.model.layout import ALL, Layout
from clash.model.relation import Relation
from clash.protocol.batch import BATCH_SPEC, BatchSpec, Tuning
from clash.protocol.containers import BackfillRange, ContainerRecord, LayoutVersion, RelayoutRange
from clash.protocol.messages import (
    REPORT_KIND,
    STORE_CHANGES_KIND,
    block_payload,
    packed,
    read_block,
    read_report,
    read_store_changes,
    report_message,
    store_changes_message,
)
from clash.protocol.reports import IngestReport, ProbeCount, Report, ResultFile, RoundReport, StoreChanges
from clash.protocol.result_files import file_location, file_name, origin_of, published_path, staged_path
from clash.statistics.collected import Collected

RECORD = ContainerRecord("state/s/b1.clash", "s", 1, 2, 3, 4, 5, 6, 7, ((8, 9), (-(2**63), 2**63 - 1)))
CHANGES = StoreChanges(2, (RECORD, replace(RECORD, counts_from=6, writer="t", split_points=(6, 7))), ("state/s/b0.clash",))
FILES = (ResultFile("q", "part-0.parquet", 3),)
SPEC = BatchSpec(
    uri="memory:x",
    checkpoint="0123456789ab", plan_path="plans/1.json", generation=3,
    timezone="Europe/Berlin", batch=4, attempt="a", partitions=2, workers=3,
    rounds=2,
    now=5, first_number=6, watermarks={"R": None, "S": -7}, containers=(RECORD,), sinks={"q": ("memory:y", "")},
    layouts={"s": (LayoutVersion(1, (ALL,), 2), LayoutVersion(3, (Layout("hash", "a", Relation("R", 1)),), 3))},
    relayout=(RelayoutRange("s", 1, 9),), backfill=(BackfillRange("m", 1, 2),), tuning=Tuning(block_rows=7),
)  # fmt: skip


def test_a_batch_spec_reaches_the_tasks_unchanged() -> None:
    assert BATCH_SPEC.loads(BATCH_SPEC.dumps(SPEC)) == SPEC
    plain = replace(SPEC, layouts={}, relayout=(), backfill=(), tuning=Tuning())
    assert BATCH_SPEC.loads(BATCH_SPEC.dumps(plain)) == plain


@pytest.mark.parametrize(
    "report",
    [
        IngestReport({"R": 3}, {"R": 1}, {"R": -5}, 3, FILES, Collected(), {"ingest": 0.5}),
        RoundReport(1, CHANGES, FILES, {"e1": ProbeCount(0.5, 2.0)}, {"round": 0.25}),
    ],
)
def test_a_report_reaches_the_coordinator_unchanged(report: Report) -> None:
    worker, kind, payload = report_message(2, report)
    assert (worker, kind) == (2, REPORT_KIND)
    assert read_report(payload) == read_report(packed(payload)) == report


def test_store_changes_reach_the_next_round_unchanged() -> None:
    worker, kind, payload = store_changes_message(1, CHANGES)
    assert (worker, kind) == (1, STORE_CHANGES_KIND)
    assert read_store_changes(payload) == read_store_changes(packed(payload)) == CHANGES
    assert RoundReport(1, CHANGES, (), {}, {}).round == CHANGES.round


@pytest.mark.parametrize(("start", "rows"), [(0, 3), (1, 2), (2, 0)])
def test_a_block_reaches_another_worker_unchanged(start: int, rows: int) -> None:
    schema = pa.schema([("#arrival", pa.int64()), ("R.s", pa.string()), ("#for e1", pa.bool_())])
    columns = {"#arrival": pa.array([1, 2, 3]), "R.s": pa.array(["x", None, "ü"]), "#for e1": pa.array([True, False, None])}
    block = Block(3, {**columns, "not sent": pa.array([1, 2, 3])}).slice(start, rows)
    payload = block_payload(block, schema)
    for arrived in (payload, bytes(packed(payload))):
        again = read_block(arrived, schema)
        assert again.rows == rows
        assert {name: column.to_pylist() for name, column in again.columns.items()} == {
            name: column.slice(start, rows).to_pylist() for name, column in columns.items()
        }


def test_result_files_are_staged_beside_where_they_are_published() -> None:
    name = file_name(12, "0123456789ab", "00c0ffee", "r1-w0-ab", 3)
    assert origin_of(name) == (12, "0123456789ab")
    assert origin_of("part-000000012-00c0ffee-r1-w0-ab-3.parquet") == (12, None)  # of format 6
    assert origin_of("part-0.parquet") is None
    assert (staged_path("results/q", name), published_path("results/q", name)) == (f"results/q/_staging/{name}", f"results/q/{name}")
    assert (staged_path("", name), published_path("", name)) == (f"_staging/{name}", name)


def test_late_rows_stay_under_the_checkpoint_and_results_go_to_their_sink() -> None:
    assert file_location("memory:x", SPEC.sinks, "late/R") == ("memory:x", "late/R")
    assert file_location("memory:x", SPEC.sinks, "q") == ("memory:y", "")
