"""What a task collects: small, exact in its counts, and the same however the rows are divided into blocks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from clash.columnar.slots import key_hashes
from clash.model.stream import Stream
from clash.sql import parse_queries
from clash.statistics import Collected, Collector, build_collection_spec, merge
from clash.statistics.collected import COLLECTED, MAX_SAMPLE_ROWS, MIN_SAMPLE_KEYS
from clash.statistics.collector import FREQUENT_ROWS, FULL_ROWS
from clash.statistics.frequent_keys import MAX_LISTED
from clash_bench.tpch_queries import TABLES, first_queries, tpch_streams

from .simulated_run import Run, as_block

STREAMS = {
    "R": Stream.of("R", {"a": "int", "v": "int"}),
    "S": Stream.of("S", {"a": "bigint", "b": "string"}),
    "T": Stream.of("T", {"b": "string"}),
}
QUERY = "SELECT R.v FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b WHERE R.v > 5"


def test_collection_spec() -> None:
    queries, _ = parse_queries({"q": QUERY, "p": "SELECT x.a FROM R x JOIN R y ON x.a = y.a WHERE y.v > 5"}, STREAMS)
    spec = build_collection_spec(queries, STREAMS)
    assert {name: [str(key) for key in of.keys] for name, of in spec.streams.items()} == {
        "R": ["a bigint"],
        "S": ["a bigint", "b string"],
        "T": ["b string"],
    }
    assert [str(e) for e in spec.streams["R"].predicates] == ["<(5, R.v)"]  # of two aliases, once
    assert spec.links == ((("R", "a"), ("R", "a")), (("R", "a"), ("S", "a")), (("S", "b"), ("T", "b")))
    assert spec.key("S", "a").domain == spec.key("R", "a").domain == "R.a"  # type: ignore[union-attr]


def test_keys_of_a_domain_have_one_type() -> None:
    streams = {"R": Stream.of("R", {"a": "int"}), "S": Stream.of("S", {"a": "double"}), "T": Stream.of("T", {"a": "decimal(10,2)"})}
    queries, _ = parse_queries({"q": "SELECT R.a FROM R JOIN S ON R.a = S.a", "p": "SELECT R.a FROM R JOIN T ON R.a = T.a"}, streams)
    assert {key.type for of in build_collection_spec(queries, streams).streams.values() for key in of.keys} == {"double"}


@pytest.mark.parametrize("blocks", [1, 7])
def test_counts_are_exact(blocks: int) -> None:
    rng = np.random.default_rng(blocks)
    queries, _ = parse_queries({"q": QUERY}, STREAMS)
    a, v = rng.integers(0, 50, 5_000), rng.integers(0, 10, 5_000)
    collector = Collector(build_collection_spec(queries, STREAMS), "UTC")
    block = as_block("R", {"a": pa.array(a, pa.int32(), mask=a == 3), "v": pa.array(v, pa.int32())}, 0)
    for rows in np.array_split(np.arange(5_000, dtype=np.int32), blocks):
        collector.add("R", block.take(rows))
    collector.add("elsewhere", block)  # a stream that no query joins has a rate too
    collected = merge([collector.collected()])
    assert collected.streams["R"].rows == collected.streams["elsewhere"].rows == 5_000
    assert (collected.streams["R"].spans[0].low, collected.streams["R"].spans[-1].high) == (0, 999_800)
    assert collected.histograms["R", "a bigint"].sum() == np.count_nonzero(a != 3)
    passed, looked = collected.passes["R", "<(5, R.v)"]
    assert passed / looked == pytest.approx((v > 5).mean(), rel=0.1)
    assert set(collected.samples) == {("R", "a bigint"), ("R", None)}


def test_equal_keys_are_in_the_samples_of_all_streams_or_of_none() -> None:
    rng = np.random.default_rng(5)
    run = Run.of("SELECT S.b FROM S JOIN T ON S.b = T.b", Stream.of("S", {"b": "bigint"}), Stream.of("T", {"b": "int"}))
    keys = rng.permutation(100_000)
    run.add({"S": {"b": keys}, "T": {"b": pa.array(keys[:50_000], pa.int32())}}, tasks=4)
    collected = run.history.nodes[-1].collected
    s, t = collected.samples["S", "b bigint"], collected.samples["T", "b bigint"]
    threshold = min(s.threshold, t.threshold)
    both = set(s.lowered(threshold).own_hashes().tolist()), set(t.lowered(threshold).own_hashes().tolist())
    assert len(both[0]) > MIN_SAMPLE_KEYS / 2
    assert both[1] < both[0]
    assert len(both[1]) == pytest.approx(len(both[0]) / 2, rel=0.3)


def test_few_keys_all_remain_in_a_sample() -> None:
    """Of a nation's customers fewer are sampled, but all nations remain."""
    rng = np.random.default_rng(6)
    run = Run.of("SELECT S.b FROM S JOIN T ON S.b = T.b", Stream.of("S", {"b": "bigint"}), Stream.of("T", {"b": "int"}))
    run.add({"S": {"b": rng.integers(0, 25, 50_000)}, "T": {"b": pa.array(np.arange(25), pa.int32())}})
    sample = run.history.nodes[-1].collected.samples["S", "b bigint"]
    assert len(np.unique(sample.own_hashes())) == 25
    assert sample.rows <= MAX_SAMPLE_ROWS
    assert sample.rows / sample.share == pytest.approx(50_000, rel=0.2)


def test_tuples_are_skipped_where_there_are_very_many() -> None:
    """Beyond a number of them a task skips some; those that it reads stand for the others."""
    queries, _ = parse_queries({"q": "SELECT R.v FROM R JOIN S ON R.a = S.a"}, STREAMS)
    collector = Collector(build_collection_spec(queries, STREAMS), "UTC")
    rows, blocks = FULL_ROWS // 2, 5
    for i in range(blocks):
        collector.add("R", as_block("R", {"a": pa.array(np.arange(rows), pa.int32())}, i))
    collected = collector.collected()
    assert collected.streams["R"].rows == rows * blocks
    assert collected.streams["R"].excess > 0
    assert collected.histograms["R", "a bigint"].sum() == pytest.approx(rows * blocks, rel=0.01)
    assert collected.samples["R", "a bigint"].share < 1


def test_encoded_decoded_and_merged() -> None:
    rng = np.random.default_rng(8)
    queries, _ = parse_queries({"q": QUERY}, STREAMS)
    parts = []
    for _ in range(5):
        collector = Collector(build_collection_spec(queries, STREAMS), "UTC")
        collector.add("S", as_block("S", {"a": rng.integers(0, 9_999, 3_000), "b": pa.array(rng.integers(0, 99, 3_000).astype(str))}, 0))
        parts.append(COLLECTED.loads(COLLECTED.dumps(collector.collected())))
    whole = merge(parts)
    assert COLLECTED.dumps(COLLECTED.loads(COLLECTED.dumps(whole))) == COLLECTED.dumps(whole)
    pairwise = merge([merge(parts[:2]), merge(parts[2:])])
    assert pairwise.streams == whole.streams
    for key, counts in whole.histograms.items():
        assert counts.sum() == 15_000
        assert (pairwise.histograms[key] == counts).all()


def test_other_queries_than_before() -> None:
    """Samples of another layout start anew; counts and histograms continue."""
    parts = []
    for text in ("SELECT R.v FROM R JOIN S ON R.a = S.a", QUERY):
        queries, _ = parse_queries({"q": text}, STREAMS)
        collector = Collector(build_collection_spec(queries, STREAMS), "UTC")
        collector.add("S", as_block("S", {"a": np.arange(100), "b": pa.array(np.arange(100).astype(str))}, 0))
        parts.append(collector.collected())
    collected = merge(parts)
    assert collected.streams["S"].rows == 200
    assert collected.histograms["S", "a bigint"].sum() == 200
    assert collected.samples["S", "a bigint"].seen == collected.samples["S", "a bigint"].rows == 100


def test_size_of_what_a_task_reports() -> None:
    queries, _ = parse_queries(first_queries(5), streams := {stream.name: stream for stream in tpch_streams(first_queries(5))})
    rng = np.random.default_rng(9)
    collector = Collector(build_collection_spec(queries, streams), "UTC")
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
        collector.add(name, as_block(name, keys, 0))
    assert len(COLLECTED.dumps(collector.collected())) < 100_000


def test_rows_on_which_a_predicate_raises() -> None:
    """In the query another filter excludes them; the predicate's share stays unknown."""
    queries, _ = parse_queries({"q": "SELECT R.v FROM R JOIN S ON R.a = S.a WHERE R.v <> 0 AND 10 / R.v > 1 AND R.v % 2 = 0"}, STREAMS)
    collector = Collector(build_collection_spec(queries, STREAMS), "UTC")
    collector.add("R", as_block("R", {"a": pa.array([1, 2], pa.int32()), "v": pa.array([0, 4], pa.int32())}, 0))
    collected = collector.collected()
    assert {text: passes for (_, text), passes in collected.passes.items()} == {"<>(R.v, 0)": (1, 2), "=(%(R.v, 2), 0)": (2, 2)}


def test_hints_of_earlier_tasks() -> None:
    """A task leaves the thresholds and shares that it came out at; the next one starts there and is as exact in its counts."""
    queries, _ = parse_queries({"q": QUERY}, STREAMS)
    spec = build_collection_spec(queries, STREAMS)
    hints: dict[str, float] = {}
    parts = []
    for _ in range(2):
        collector = Collector(spec, "UTC", hints=hints)
        collector.add("S", as_block("S", {"a": np.arange(20_000), "b": pa.array(np.arange(20_000).astype(str))}, 0))
        parts.append(collector.collected())
    assert set(hints) == {"R.a", "S.b", "S a bigint", "S b string", "S None"}
    assert hints["R.a"] < 0.1
    for part in parts:
        assert part.streams["S"].rows == part.histograms["S", "a bigint"].sum() == 20_000
        assert part.samples["S", "a bigint"].rows / hints["R.a"] == pytest.approx(20_000, rel=0.5)


def test_a_histogram_of_another_version_is_rejected() -> None:
    with pytest.raises(ValueError, match="a histogram of 2 buckets"):
        Collected(histograms={("S", "a bigint"): np.zeros(2, np.int64)})


@pytest.mark.parametrize(("rows", "blocks"), [(20_000, 1), (20_000, 50), (200_000, 8)])
def test_frequent_keys_have_the_share_that_they_have_in_the_stream(rows: int, blocks: int) -> None:
    rng = np.random.default_rng(rows + blocks)
    queries, _ = parse_queries({"q": QUERY}, STREAMS)
    spec = build_collection_spec(queries, STREAMS)
    shares = 1 / np.arange(1, 5_001) ** 1.5
    keys = rng.choice(5_000, rows, p=shares / shares.sum())
    block = as_block("S", {"a": pa.array(keys), "b": pa.array(rng.integers(0, 100_000, rows).astype(str), mask=keys == 7)}, 0)
    parts = []
    for at in np.array_split(np.arange(rows, dtype=np.int32), blocks):
        collector = Collector(spec, "UTC")
        collector.add("S", block.take(at))
        parts.append(COLLECTED.decode(COLLECTED.encode(collector.collected())))
    merged = merge(parts).frequent
    hashes = key_hashes(pa.array(np.arange(6), pa.int16()), "UTC")[0].tolist()  # the type does not matter
    assert merged["S", "a"].rows == rows
    for key, one in enumerate(hashes):
        share = np.count_nonzero(keys == key) / rows
        error = np.sqrt(share * (1 - share) / FREQUENT_ROWS)  # of what is counted in a single block
        assert merged["S", "a"].counts[one] / rows == pytest.approx(share, abs=4 * error)
    assert len(merged["S", "a"].counts) <= MAX_LISTED
    assert not merged["S", "b"].counts  # no key of it is frequent
