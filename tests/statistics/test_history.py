"""Epochs: what windows need is retained in bounded space, a change is followed at once, probe results correct what samples say."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.statistics import ProbeStep
from clash.statistics.history import HISTORY, MAX_NODES

from .simulated_run import SECOND, Ints, Run, Table, count_matches

PAIR = "SELECT S.b FROM S JOIN T ON S.b = T.b"
KEY = ("S.b = T.b",)


def pair_of(**options: str) -> Run:
    more = {"ts": "timestamp"} if options else {}
    return Run.of(PAIR, *(Stream.of(name, {"b": "bigint", **more}, **options) for name in "ST"))  # type: ignore[arg-type]


def test_bounded_and_restored() -> None:
    rng = np.random.default_rng(1)
    run = pair_of(time="ts", window="30 seconds")
    sizes = []
    for _ in range(60):
        run.add({name: {"b": rng.integers(0, 5_000, 2_000)} for name in "ST"})
        assert len(run.history.nodes) <= MAX_NODES
        assert run.history.nodes[-1].epochs == 1
        sizes.append(len(HISTORY.dumps(run.history)))
    assert max(sizes[30:]) < 1.3 * sizes[30]
    before = run.estimate()
    assert before.rates == pytest.approx({"S": 60_000, "T": 60_000}, rel=0.1)
    run.history = HISTORY.loads(HISTORY.dumps(run.history))
    assert run.estimate() == before
    run.add({name: {"b": rng.integers(0, 5_000, 2_000)} for name in "ST"})


def test_epochs_added_to_a_copy() -> None:
    run = pair_of()
    run.add({name: keys(1_000) for name in "ST"})
    before = HISTORY.dumps(run.history)
    original, run.history = run.history, run.history.copy()
    for _ in range(MAX_NODES + 1):
        run.add({name: keys(1_000) for name in "ST"})
    assert run.history.epochs == MAX_NODES + 2
    assert HISTORY.dumps(original) == before


def test_a_damaged_document_is_a_value_error() -> None:
    run = pair_of()
    run.add({name: keys(1_000) for name in "ST"})
    document = HISTORY.encode(run.history)
    histogram = document["nodes"][0]["collected"]["histograms"][0][1]
    assert histogram[3] == "zlib"
    histogram[2] = histogram[2][:100] + histogram[2][104:]
    with pytest.raises(ValueError, match="decompress"):
        HISTORY.decode(document)


def test_everything_without_a_window() -> None:
    rng = np.random.default_rng(2)
    run = pair_of()
    tables: dict[str, list[Table]] = {"S": [], "T": []}
    for epoch in range(20):
        for name in "ST":
            tables[name].append({"b": rng.integers(epoch * 10, epoch * 10 + 500, 1_000)})
        run.add({name: tables[name][-1] for name in "ST"})
    s, t = (np.concatenate([table["b"] for table in tables[name]]) for name in "ST")
    assert run.estimate().rates == {"S": 20_000, "T": 20_000}
    assert run.estimate().sizes[KEY] == pytest.approx(count_matches(t, s).sum(), rel=0.15)


def test_partners_that_lie_epochs_apart() -> None:
    """An order is shipped three epochs later: no epoch alone has both."""
    run = pair_of(time="ts", window="6 seconds")
    for epoch in range(15):
        run.add({"S": {"b": np.arange(3_000) + 3_000 * epoch}, "T": {"b": np.arange(3_000) + 3_000 * (epoch - 3)}})
    assert run.estimate().sizes[KEY] == pytest.approx(3 * 3_000, rel=0.35)


def test_tuples_of_an_idle_stream_expire() -> None:
    run = pair_of(time="ts", window="3 seconds")
    for epoch in range(8):
        run.add({"S": {"b": np.arange(900)}, **({"T": {"b": np.arange(900)}} if epoch < 2 else {})})
    assert run.estimate().rates == pytest.approx({"S": 2_700}, rel=0.01)


YEARS = 10 * 365 * 24 * 3600  # ten years, in epochs


def keys(rows: int) -> Table:
    return {"b": np.arange(rows) % 500}


def first(rows: int, off: int) -> Ints:
    """Only the first tuple has a time that is off by so many seconds."""
    return off * SECOND * (np.arange(rows) == 0)


@pytest.mark.parametrize("rows", [1_000, 1])
@pytest.mark.parametrize("off", [YEARS, -YEARS, 100])
def test_an_event_time_that_is_far_off_is_no_clock(off: int, rows: int) -> None:
    """If one in the future were the clock, no tuple would be in the window for years. Nor may it stretch the epochs it is merged with."""
    run = pair_of(time="ts", window="10 seconds")
    for epoch in range(60):
        wrong = epoch in (15, 30)
        run.add({"S": keys(rows if wrong else 1_000), "T": keys(1_000)}, off={"S": first(rows, off)} if wrong else {})
        run.history = HISTORY.loads(HISTORY.dumps(run.history))
        if epoch > 10:
            statistics = run.estimate()
            assert 8_900 < statistics.rates["S"] < 10_100
            assert statistics.rates["T"] == pytest.approx(10_000, rel=0.01)
            assert statistics.sizes[KEY] == pytest.approx(statistics.rates["S"] * 10_000 / 500, rel=0.1)


def test_a_sparse_stream_recovers_from_a_wrong_event_time() -> None:
    run = pair_of(time="ts", window="10 seconds")
    for epoch in range(40):
        tables = {"T": keys(1_000)} | ({"S": keys(1)} if epoch % 3 == 0 else {})
        run.add(tables, off={"S": first(1, YEARS)} if epoch == 15 else {})
        assert epoch < 10 or run.estimate().rates["S"] >= 1
    assert run.estimate().rates["S"] == pytest.approx(3.5, abs=0.6)


@pytest.mark.parametrize("rows", [1_000, 10])
@pytest.mark.parametrize("jump", [YEARS, -YEARS, 30, -30])
def test_a_stream_that_jumps_is_followed_within_two_epochs(jump: int, rows: int) -> None:
    run = pair_of(time="ts", window="5 seconds")
    for _ in range(10):
        run.add({name: keys(1_000) for name in "ST"})
    run.epoch += jump
    for epoch in range(1, 8):
        run.add({name: keys(rows) for name in "ST"})
        if epoch >= 2:
            assert run.estimate().rates == pytest.approx(dict.fromkeys("ST", min(epoch, 5) * rows), rel=0.01)


@pytest.mark.parametrize(("behind", "rows"), [(0, 5_000), (3, 2_000), (5, 5_000), (30, 5_000), (YEARS, 5_000)])
def test_a_stream_behind_the_others_has_tuples_in_its_window(behind: int, rows: int) -> None:
    run = pair_of(time="ts", window="5 seconds")
    for epoch in range(15):
        run.add({name: keys(1_000) for name in "ST"}, off={"S": -behind * SECOND})
        assert epoch < 5 or run.estimate().rates == pytest.approx({"S": rows, "T": 5_000}, rel=0.01)


@pytest.mark.parametrize("options", [{}, {"time": "ts", "window": "40 seconds"}])
@pytest.mark.parametrize(("before", "after"), [(100, 4_000), (4_000, 100)])
def test_a_sudden_change_is_followed_within_two_epochs(options: dict[str, str], before: int, after: int) -> None:
    """Windows still have mostly old tuples; the newest find many more partners, or far fewer, and the next ones will too."""
    rng = np.random.default_rng(3)
    run = pair_of(**options)
    for _ in range(12):
        run.add({name: {"b": rng.integers(0, before, 3_000)} for name in "ST"})
    steady = run.estimate()
    assert steady.sizes[KEY] == pytest.approx(36_000**2 / before, rel=0.15)
    for new in (3_000, 6_000):
        run.add({name: {"b": rng.integers(0, after, 3_000)} for name in "ST"})
        statistics = run.estimate()
        assert statistics.rates == {"S": 36_000 + new, "T": 36_000 + new}
        # a new tuple finds 1/after of the new ones and, of the old ones, those that have its key
        partners = 36_000 / max(before, after) + new / after
        assert statistics.sizes[KEY] == pytest.approx((36_000 + new) * partners, rel=0.5)


def test_a_steady_stream_is_no_change() -> None:
    rng = np.random.default_rng(4)
    run = pair_of(time="ts", window="5 seconds")
    for _ in range(20):
        run.add({name: {"b": rng.integers(0, 3_000, 2_000)} for name in "ST"})
        assert all(trend.factor == 1 for trend in run.history.drift.trends.values())


def test_probes_correct_what_samples_say() -> None:
    """Two filters exclude each other for every pair: histograms cannot know."""
    query = "SELECT S.b FROM S JOIN T ON S.b = T.b WHERE S.v < T.v"
    run = Run.of(query, *(Stream.of(name, {"b": "bigint", "v": "int"}) for name in "ST"))
    join = run.queries[0].join
    s, t = Relation("S"), Relation("T")
    steps = {
        "e1": ProbeStep(s, join.sub([s]), join.sub([t]), join),
        "e2": ProbeStep(t, join.sub([t]), join.sub([s]), join),
        "e3": ProbeStep(t, join.sub([t]), join.sub([s]), join, "again"),  # the same results, found a second time
    }
    rng = np.random.default_rng(5)
    for _ in range(6):
        table = {name: {"b": rng.integers(0, 500, 5_000), "v": pa.array(np.zeros(5_000), pa.int32())} for name in "ST"}
        run.add(table, matches={"e1": (5_000, 0), "e2": (5_000, 0), "e3": (5_000, 0)}, steps=steps)
    statistics = run.estimate()
    assert statistics.sizes[KEY] == pytest.approx(30_000**2 / 500, rel=0.1)
    assert statistics.sizes["S.b = T.b", "<(S.v, T.v)"] < 0.001 * 30_000**2 / 500


def test_probes_of_some_origins() -> None:
    """Only T's probes are counted: they find twice what was expected."""
    run = pair_of()
    join = run.queries[0].join
    t = Relation("T")
    steps = {"e": ProbeStep(t, join.sub([t]), join.sub([Relation("S")]), join)}
    rng = np.random.default_rng(6)
    for epoch in range(6):
        run.add(
            {name: {"b": rng.integers(0, 500, 5_000)} for name in "ST"},
            matches={"e": (5_000, 2 * 5_000 * 5_000 * (epoch + 1) // 500)},
            steps=steps,
        )
    assert run.estimate().sizes[KEY] == pytest.approx(2 * 30_000**2 / 500, rel=0.25)


def test_rare_partners_are_found_by_probes_alone() -> None:
    """Of a million keys a thousand meet: less than histograms and samples can tell from nothing."""
    run = pair_of()
    join = run.queries[0].join
    sides = [Relation("S"), Relation("T")]
    steps = {str(r): ProbeStep(r, join.sub([r]), join.sub([o]), join) for r, o in zip(sides, reversed(sides), strict=True)}
    rng = np.random.default_rng(7)
    for epoch in range(4):
        base = 10**6 * epoch
        common = base + np.arange(250)
        own = base + 10**9 + rng.permutation(100_000)
        tables = {"S": {"b": np.concatenate([common, own])}, "T": {"b": np.concatenate([common, own + 10**10])}}
        run.add(tables, matches={"S": (100_250, 125), "T": (100_250, 125)}, steps=steps)
    assert 300 < run.estimate().sizes[KEY] < 3_000
