"""Raw tuples in, messages out: their numbers, which of them are late, and which leave on what edge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clash
from clash.errors import DataError
from clash.model.block_columns import ARRIVAL, EVENT_TIME, NUMBER_BITS, edge_mask
from clash.model.stream import Stream
from clash.protocol.messages import REPORT_KIND, Message, read_report
from clash.protocol.reports import IngestReport
from clash.protocol.result_files import staged_path
from clash.workers.ingest import run_ingest

from .batches import SECOND, Checkpoint, checkpoint, received, stream

JOIN = "SELECT R.v, S.v AS w FROM R JOIN S ON R.a = S.a"
FILTERED = JOIN + " WHERE R.v > 1"


def plan_of(streams: Iterable[Stream] | None = None, workers: int = 2, strategy: Any = "global", **texts: str) -> Checkpoint:
    streams = streams or [stream("R"), stream("S"), stream("T")]
    return checkpoint(clash.optimize(texts or {"q": JOIN}, streams=streams, workers=workers, strategy=strategy, time_limit=0.0))


def batch(found: Checkpoint, name: str, rows: list[dict[str, Any]]) -> tuple[str, pa.RecordBatch]:
    """Rows of a stream with the columns that the plan reads; `ts` is in seconds."""
    values = [{**row, "ts": None if row.get("ts", 0) is None else row.get("ts", 0) * SECOND} for row in rows]
    return name, pa.RecordBatch.from_pylist(values, schema=found.plan.ingest_schemas[name])


def report_of(messages: list[Message]) -> IngestReport:
    """The report, which is the last message and the only one of its kind."""
    assert [message.kind == REPORT_KIND for message in messages] == [False] * (len(messages) - 1) + [True]
    report = read_report(messages[-1].payload)
    assert isinstance(report, IngestReport)
    return report


def arrival_numbers(found: Checkpoint, messages: list[Message], stream: str) -> set[int]:
    channels = {channel.name for channel in found.plan.ingest[stream].channels}
    rows = [row for name, sent in received(found, messages).items() if name in channels for _, row in sent]
    assert all(row[ARRIVAL] % (1 << NUMBER_BITS) == 0 for row in rows)
    return {row[ARRIVAL] >> NUMBER_BITS for row in rows}


@pytest.fixture(scope="module")
def plain() -> Checkpoint:
    return plan_of()


# ---- arrival numbers ---------------------------------------------------------------------------------------------

SIZES = st.lists(st.tuples(st.sampled_from("RS"), st.integers(0, 5)), max_size=5)


def test_row_r_of_partition_p_has_the_number_first_plus_r_times_partitions_plus_p(plain: Checkpoint) -> None:
    spec = plain.spec(first_number=100, partitions=3)
    rows = [{"a": 1, "v": 1}] * 2
    messages = list(run_ingest(spec, 1, [batch(plain, "R", rows), batch(plain, "S", rows), batch(plain, "R", rows)]))
    assert arrival_numbers(plain, messages, "R") | arrival_numbers(plain, messages, "S") == {101, 104, 107, 110, 113, 116}
    assert report_of(messages).numbers == 6


@settings(max_examples=30)
@given(st.lists(SIZES, min_size=1, max_size=4), st.integers(1, 12), st.integers(0, 1000))
def test_arrival_numbers_are_a_total_order_over_all_partitions(
    plain: Checkpoint, partitions: list[list[tuple[str, int]]], together: int, first: int
) -> None:
    spec = plain.spec(first_number=first, partitions=len(partitions), tuning={"ingest_rows": together})
    numbers: list[int] = []
    used = []
    for at, sizes in enumerate(partitions):
        batches = [batch(plain, name, [{"a": n, "v": 1} for n in range(size)]) for name, size in sizes]
        messages = list(run_ingest(spec, at, batches))
        for name in "RS":
            numbers += arrival_numbers(plain, messages, name)
        used.append(report_of(messages).numbers)
    total = sum(size for sizes in partitions for _, size in sizes)
    assert len(set(numbers)) == len(numbers) == sum(used) == total
    assert all(first <= number < first + max(used) * len(partitions) for number in numbers)  # where the next batch starts


# ---- late rows ---------------------------------------------------------------------------------------------------


def late_rows(found: Checkpoint, report: IngestReport, name: str) -> list[dict[str, Any]]:
    paths = [staged_path(file.destination, file.name) for file in report.files if file.destination == f"late/{name}"]
    tables = [pq.read_table(pa.BufferReader(found.storage.read(path))) for path in paths]
    return [row for table in tables for row in table.to_pylist()]


@pytest.mark.parametrize(("watermark", "late"), [(None, [4]), (6, [0, 1, 4]), (7, [0, 1, 2, 4]), (-(2**63), [4]), (99, [0, 1, 2, 3, 4])])
def test_rows_before_the_watermark_and_rows_without_time_are_late(plain: Checkpoint, watermark: int | None, late: list[int]) -> None:
    times = [3, 5, 6, 9, None]
    spec = plain.spec(watermarks={"R": None if watermark is None else watermark * SECOND})
    messages = list(run_ingest(spec, 0, [batch(plain, "R", [{"a": 1, "v": at, "ts": time} for at, time in enumerate(times)])]))
    report = report_of(messages)
    assert [row["v"] for row in late_rows(plain, report, "R")] == late
    assert (dict(report.rows), dict(report.late)) == ({"R": 5}, {"R": len(late)})
    assert report.max_event_times == {"R": 9 * SECOND}
    assert report.numbers == 5  # late rows use up numbers, too
    assert arrival_numbers(plain, messages, "R") == set(range(5)) - set(late)


def test_late_rows_are_staged_as_one_file_with_the_columns_that_were_read(plain: Checkpoint) -> None:
    spec = plain.spec(watermarks={"R": 5 * SECOND}, tuning={"ingest_rows": 1})
    report = report_of(list(run_ingest(spec, 0, [batch(plain, "R", [{"a": n, "v": n, "ts": n}]) for n in range(8)])))
    (file,) = report.files
    assert (file.destination, file.rows) == ("late/R", 5)
    assert plain.storage.exists(staged_path(file.destination, file.name))
    assert [list(row) for row in late_rows(plain, report, "R")] == [["a", "v", "ts"]] * 5


def test_a_watermark_is_that_of_the_stream(plain: Checkpoint) -> None:
    spec = plain.spec(watermarks={"R": 5 * SECOND, "S": None})
    report = report_of(list(run_ingest(spec, 0, [batch(plain, name, [{"a": 1, "ts": 1}]) for name in "RS"])))
    assert (dict(report.rows), dict(report.late)) == ({"R": 1, "S": 1}, {"R": 1})


def test_without_a_time_column_the_time_of_the_batch_counts() -> None:
    found = plan_of([Stream.of(name, {"a": "bigint", "v": "int"}) for name in "RS"])
    messages = list(run_ingest(found.spec(now=8 * SECOND), 0, [batch(found, "R", [{"a": 1, "v": 1}])]))
    rows = [row for sent in received(found, messages).values() for _, row in sent]
    assert {row[EVENT_TIME] for row in rows} == {8 * SECOND}
    assert report_of(messages).max_event_times == {"R": 8 * SECOND}


# ---- what leaves -------------------------------------------------------------------------------------------------


def test_rows_of_a_stream_that_no_query_reads_are_counted() -> None:
    found = plan_of()
    unread = pa.RecordBatch.from_pylist([{"x": 1}, {"x": 2}])
    messages = list(run_ingest(found.spec(), 0, [("T", unread)]))
    report = report_of(messages)
    assert (len(messages), dict(report.rows), report.numbers) == (1, {"T": 2}, 0)


def test_a_block_has_the_columns_of_its_channel_and_a_mask_for_each_edge_that_takes_some_rows(plain: Checkpoint) -> None:
    into, (probe,) = edges(plain)
    messages = list(run_ingest(plain.spec(), 0, [batch(plain, "R", [{"a": 5, "v": 6, "ts": 7}])]))
    ((name, sent),) = received(plain, messages).items()
    assert set(plain.plan.channels[name].edges) == {into, probe}
    assert [row for _, row in sent] == [{ARRIVAL: 0, EVENT_TIME: 7 * SECOND, "R.a": 5, "R.v": 6, edge_mask(into): True}]


def test_values_are_cast_to_the_declared_types(plain: Checkpoint) -> None:
    arrays = [pa.array([5], pa.int32()), pa.array([6], pa.int64()), pa.array([7 * SECOND], pa.timestamp("us"))]
    messages = list(run_ingest(plain.spec(), 0, [("R", pa.RecordBatch.from_arrays(arrays, ["a", "v", "ts"]))]))
    ((_, ((_, row),)),) = received(plain, messages).items()
    assert (row["R.a"], row["R.v"]) == (5, 6)


def taken(found: Checkpoint, rows: list[dict[str, Any]], stream: str = "R") -> dict[str, list[Any]]:
    """By edge, `v` of the rows that it takes; every row that is sent is taken by some edge."""
    messages = list(run_ingest(found.spec(), 0, [batch(found, stream, rows)]))
    by_edge: dict[str, list[Any]] = {}
    for name, sent in received(found, messages).items():
        channel = found.plan.channels[name]
        for label in channel.edges:
            mask = channel.masks.get(label)
            by_edge[label] = [row[f"{stream}.v"] for _, row in sent if mask is None or row[mask]]
        assert {row[f"{stream}.v"] for _, row in sent} == {v for label in channel.edges for v in by_edge[label]}
    return by_edge


def edges(found: Checkpoint, stream: str = "R") -> tuple[str, list[str]]:
    """The edge into the store, and those into probe trees."""
    (into,) = (edge.label for edge in found.topology.ingest[stream])
    return into, [label for origin in found.topology.roots(stream) for label in origin.out]


ROWS: list[dict[str, Any]] = [{"a": 1, "v": 1}, {"a": 1, "v": 2}, {"a": None, "v": 3}, {"a": 2, "v": None}]


def test_without_filters_rows_without_a_key_are_not_stored(plain: Checkpoint) -> None:
    into, (probe,) = edges(plain)
    by_edge = taken(plain, ROWS)
    assert by_edge[into] == [1, 2, None]
    assert set(by_edge[probe]) >= {1, 2, None}


def test_rows_that_no_query_wants_are_not_sent() -> None:
    found = plan_of(q=FILTERED)
    into, (probe,) = edges(found)
    by_edge = taken(found, ROWS)
    assert by_edge[into] == [2]
    assert 1 not in by_edge[probe]
    assert None not in by_edge[probe]  # a filter that is NULL is not true


def test_edges_that_share_a_block_take_their_own_rows_of_it() -> None:
    """A row is stored if any query wants it, and starts the probe trees of just those queries."""
    found = plan_of(strategy="shared", q1=FILTERED, q2=JOIN + " WHERE R.v < 2")  # `global` has one edge for both, and checks at the end
    into, probes = edges(found)
    rows = [{"a": 1, "v": v} for v in (0, 1, 2, 3)]
    by_edge = taken(found, rows)
    assert by_edge[into] == [0, 1, 2, 3]
    assert sorted(by_edge[label] for label in probes) == [[0, 1], [2, 3]]
    (channel,) = found.plan.ingest["R"].channels
    assert set(channel.masks) >= set(probes)


def test_a_query_of_one_relation_is_an_edge_of_its_own() -> None:
    found = plan_of(q1="SELECT R.v FROM R WHERE R.v > 1", q2=JOIN)
    (origin,) = (origin for origin in found.topology.roots("R") if origin.emits)
    by_edge = taken(found, [{"a": 1, "v": v} for v in (0, 1, 2, 3)])
    assert by_edge[origin.label] == [2, 3]


def test_nothing_is_sent_of_rows_that_no_edge_takes() -> None:
    found = plan_of(q=FILTERED)
    messages = list(run_ingest(found.spec(), 0, [batch(found, "R", [{"a": 1, "v": 0}])]))
    assert [message.kind for message in messages] == [REPORT_KIND]
    assert dict(report_of(messages).rows) == {"R": 1}


def test_an_error_names_the_stream_and_the_batch() -> None:
    found = plan_of(q=JOIN + " WHERE 1 / R.v > 0")
    with pytest.raises(DataError, match="stream R, batch 1"):
        list(run_ingest(found.spec(), 0, [batch(found, "R", [{"a": 1, "v": 0}])]))
