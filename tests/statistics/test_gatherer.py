"""What a task gathers: little, exact in its counts, and the same however the rows are cut."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from clash.bench.tpch_queries import TABLES, first_queries, tpch_streams
from clash.model.stream import Stream
from clash.sql import parse_queries
from clash.statistics import Gathered, Gatherer, merge, collection_spec
from clash.statistics.collected import KEYS, ROWS, add_up
from clash.statistics.collector import FULL

from .truth import Block, Run, as_block

STREAMS = {
    "R": Stream.of("R", {"a": "int", "v": "int"}),
    "S": Stream.of("S", {"a": "bigint", "b": "string"}),
    "T": Stream.of("T", {"b": "string"}),
}
QUERY = "SELECT R.v FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b WHERE R.v > 5"


def test_what_is_wanted() -> None:
    queries, _ = parse_queries({"q": QUERY, "p": "SELECT x.a FROM R x JOIN R y ON x.a = y.a WHERE y.v > 5"}, STREAMS)
    found = collection_spec(queries, STREAMS)
    assert {name: [str(key) for key in of.keys] for name, of in found.streams.items()} == {
        "R": ["a bigint"],
        "S": ["a bigint", "b string"],
        "T": ["b string"],
    }
    assert [str(e) for e in found.streams["R"].predicates] == ["<(5, R.v)"]  # of two aliases, once
    assert found.links == ((("R", "a"), ("R", "a")), (("R", "a"), ("S", "a")), (("S", "b"), ("T", "b")))
    assert found.key("S", "a").domain == found.key("R", "a").domain == "R.a"  # type: ignore[union-attr]


def test_types_are_brought_together() -> None:
    streams = {"R": Stream.of("R", {"a": "int"}), "S": Stream.of("S", {"a": "double"}), "T": Stream.of("T", {"a": "decimal(10,2)"})}
    queries, _ = parse_queries({"q": "SELECT R.a FROM R JOIN S ON R.a = S.a", "p": "SELECT R.a FROM R JOIN T ON R.a = T.a"}, streams)
    assert {key.type for of in collection_spec(queries, streams).streams.values() for key in of.keys} == {"double"}


@pytest.mark.parametrize("pieces", [1, 7])
def test_counts_are_exact(pieces: int) -> None:
    rng = np.random.default_rng(pieces)
    queries, _ = parse_queries({"q": QUERY}, STREAMS)
    a, v = rng.integers(0, 50, 5_000), rng.integers(0, 10, 5_000)
    gatherer = Gatherer(collection_spec(queries, STREAMS), "UTC")
    block = as_block("R", {"a": pa.array(a, pa.int32(), mask=a == 3), "v": pa.array(v, pa.int32())}, 0)
    for part in np.array_split(np.arange(5_000), pieces):
        gatherer.add("R", Block(len(part), {name: column.take(pa.array(part)) for name, column in block.columns.items()}))
    gatherer.add("elsewhere", block)  # a stream that no query joins has a rate all the same
    found = merge([gatherer.to_json()])
    assert found.streams["R"].rows == found.streams["elsewhere"].rows == 5_000
    assert (found.streams["R"].spans[0].low, found.streams["R"].spans[-1].high) == (0, 999_800)
    assert found.histograms["R", "a bigint"].sum() == np.count_nonzero(a != 3)
    passed, looked = found.passes["R", "<(5, R.v)"]
    assert passed / looked == pytest.approx((v > 5).mean(), rel=0.1)
    assert set(found.samples) == {("R", "a bigint"), ("R", None)}


def test_equal_keys_are_in_the_samples_of_all_streams_or_of_none() -> None:
    rng = np.random.default_rng(5)
    run = Run.of("SELECT S.b FROM S JOIN T ON S.b = T.b", Stream.of("S", {"b": "bigint"}), Stream.of("T", {"b": "int"}))
    keys = rng.permutation(100_000)
    run.add({"S": {"b": keys}, "T": {"b": pa.array(keys[:50_000], pa.int32())}}, tasks=4)
    gathered = run.history.nodes[-1].gathered
    s, t = gathered.samples["S", "b bigint"], gathered.samples["T", "b bigint"]
    threshold = min(s.threshold, t.threshold)
    both = set(s.lowered(threshold).own().tolist()), set(t.lowered(threshold).own().tolist())
    assert len(both[0]) > KEYS / 2
    assert both[1] < both[0]
    assert len(both[1]) == pytest.approx(len(both[0]) / 2, rel=0.3)


def test_few_keys_keep_them_all() -> None:
    """Of nations' customers fewer are kept, not of fewer nations."""
    rng = np.random.default_rng(6)
    run = Run.of("SELECT S.b FROM S JOIN T ON S.b = T.b", Stream.of("S", {"b": "bigint"}), Stream.of("T", {"b": "int"}))
    run.add({"S": {"b": rng.integers(0, 25, 50_000)}, "T": {"b": pa.array(np.arange(25), pa.int32())}})
    sample = run.history.nodes[-1].gathered.samples["S", "b bigint"]
    assert len(np.unique(sample.own())) == 25
    assert sample.rows <= ROWS
    assert sample.rows / sample.share == pytest.approx(50_000, rel=0.2)


def test_parts_of_very_many_tuples() -> None:
    """Beyond so many of them a task skips some; those it looks at stand for the others."""
    queries, _ = parse_queries({"q": "SELECT R.v FROM R JOIN S ON R.a = S.a"}, STREAMS)
    gatherer = Gatherer(collection_spec(queries, STREAMS), "UTC")
    rows, blocks = FULL // 2, 5
    for i in range(blocks):
        gatherer.add("R", as_block("R", {"a": pa.array(np.arange(rows), pa.int32())}, i))
    found = gatherer.gathered()
    assert found.streams["R"].rows == rows * blocks
    assert found.streams["R"].excess > 0
    assert found.histograms["R", "a bigint"].sum() == pytest.approx(rows * blocks, rel=0.01)
    assert found.samples["R", "a bigint"].share < 1


def test_there_and_back_and_merged() -> None:
    rng = np.random.default_rng(8)
    queries, _ = parse_queries({"q": QUERY}, STREAMS)
    parts = []
    for _ in range(5):
        gatherer = Gatherer(collection_spec(queries, STREAMS), "UTC")
        gatherer.add("S", as_block("S", {"a": rng.integers(0, 9_999, 3_000), "b": pa.array(rng.integers(0, 99, 3_000).astype(str))}, 0))
        parts.append(json.loads(json.dumps(gatherer.to_json())))
    whole = merge(parts)
    again = Gathered.from_json(json.loads(json.dumps(whole.to_json())))
    assert again.to_json() == whole.to_json()
    pairwise = add_up([merge(parts[:2]), merge(parts[2:])])
    assert pairwise.streams == whole.streams
    for key, counts in whole.histograms.items():
        assert counts.sum() == 15_000
        assert (pairwise.histograms[key] == counts).all()


def test_other_queries_than_before() -> None:
    """Samples of other keys start anew; counts and histograms go on."""
    gathered = []
    for text in ("SELECT R.v FROM R JOIN S ON R.a = S.a", QUERY):
        queries, _ = parse_queries({"q": text}, STREAMS)
        gatherer = Gatherer(collection_spec(queries, STREAMS), "UTC")
        gatherer.add("S", as_block("S", {"a": np.arange(100), "b": pa.array(np.arange(100).astype(str))}, 0))
        gathered.append(gatherer.to_json())
    found = merge(gathered)
    assert found.streams["S"].rows == 200
    assert found.histograms["S", "a bigint"].sum() == 200
    assert found.samples["S", "a bigint"].seen == found.samples["S", "a bigint"].rows == 100


def test_the_size_of_what_a_task_sends() -> None:
    queries, _ = parse_queries(first_queries(5), streams := {stream.name: stream for stream in tpch_streams(first_queries(5))})
    rng = np.random.default_rng(9)
    gatherer = Gatherer(collection_spec(queries, streams), "UTC")
    for name, rows in {
        "lineitem": 60_000,
        "orders": 15_000,
        "partsupp": 8_000,
        "part": 2_000,
        "supplier": 100,
        "nation": 25,
        "region": 5,
    }.items():
        keys = {column: rng.integers(0, rows, rows) for column in TABLES[name] if column.endswith("key")}
        gatherer.add(name, as_block(name, keys, 0))
    assert len(json.dumps(gatherer.to_json())) < 100_000


def test_rows_that_a_predicate_cannot_be_asked_of() -> None:
    """Another filter keeps them from it in the query; here it is left unknown."""
    queries, _ = parse_queries({"q": "SELECT R.v FROM R JOIN S ON R.a = S.a WHERE R.v <> 0 AND 10 / R.v > 1 AND R.v % 2 = 0"}, STREAMS)
    gatherer = Gatherer(collection_spec(queries, STREAMS), "UTC")
    gatherer.add("R", as_block("R", {"a": pa.array([1, 2], pa.int32()), "v": pa.array([0, 4], pa.int32())}, 0))
    found = gatherer.gathered()
    assert {text: passes for (_, text), passes in found.passes.items()} == {"<>(R.v, 0)": (1, 2), "=(%(R.v, 2), 0)": (2, 2)}
