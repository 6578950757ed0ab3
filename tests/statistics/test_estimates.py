"""Estimates against exact sizes. The bounds are those of docs/statistics.md; seeds are fixed."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

import clash
from clash.model.stream import Stream
from clash.planner.cardinalities import Sizes
from clash.sql.statistics_text import normal_statistics
from clash.statistics.probe_feedback import size_key

from .simulated_run import Ints, Run, Table, concatenate, count_matches

CHAIN = "SELECT s.b FROM S s JOIN T t ON s.b = t.b JOIN U u ON t.c = u.c"
ST, TU, STU = ("S.b = T.b",), ("T.c = U.c",), ("S.b = T.b", "T.c = U.c")


def three(**options: str) -> list[Stream]:
    columns = {"S": ("b",), "T": ("b", "c"), "U": ("c",)}
    more = {"ts": "timestamp"} if options else {}
    return [Stream.of(name, dict.fromkeys(of, "bigint") | more, **options) for name, of in columns.items()]  # type: ignore[arg-type]


def in_epochs(run: Run, tables: dict[str, Table], epochs: int = 4, share: float = 1.0) -> None:
    for epoch in range(epochs):
        part = {name: {column: cut(values, epoch, epochs) for column, values in table.items()} for name, table in tables.items()}
        run.add({name: table for name, table in part.items() if len(next(iter(table.values())))}, share=share)


def cut(values: Ints | pa.Array, at: int, step: int) -> Ints | pa.Array:
    return values.take(pa.array(np.arange(at, len(values), step))) if isinstance(values, pa.Array) else values[at::step]


def close(statistics: clash.Statistics, truth: dict[tuple[str, ...], float], within: float) -> None:
    for key, exact in truth.items():
        assert exact / (1 + within) <= statistics.sizes[key] <= exact * (1 + within), (key, exact, statistics.sizes[key])


@pytest.mark.parametrize("seed", [1, 2])
def test_foreign_keys(seed: int) -> None:
    """As in TPC-H: most joins are of a key and what refers to it, one is of two columns that are not independent."""
    rng = np.random.default_rng(seed)
    queries = {
        "q1": "SELECT 1 AS x FROM C c JOIN O o ON c.ck = o.ck JOIN L l ON l.ok = o.ok JOIN P p ON p.pk = l.pk",
        "q2": "SELECT 1 AS x FROM N n JOIN C c ON n.nk = c.nk JOIN O o ON o.ck = c.ck",
        "q3": "SELECT 1 AS x FROM L l JOIN PS s ON l.pk = s.pk AND l.sk = s.sk JOIN P p ON p.pk = s.pk",
    }
    columns = {"N": "nk", "C": "ck nk", "O": "ok ck", "L": "ok pk sk", "P": "pk", "PS": "pk sk"}
    run = Run.of(queries, *(Stream.of(name, dict.fromkeys(of.split(), "bigint")) for name, of in columns.items()))
    customers, orders, lines, parts = 1_500, 15_000, 60_000, 2_000
    supplied = np.repeat(np.arange(parts), 4)
    suppliers = (supplied + np.tile(np.arange(4), parts) * 25) % 100
    chosen = rng.integers(0, 4 * parts, lines)
    tables: dict[str, Table] = {
        "N": {"nk": np.arange(25)},
        "C": {"ck": np.arange(customers), "nk": rng.integers(0, 25, customers)},
        "O": {"ok": rng.permutation(orders) * 4, "ck": rng.integers(0, customers, orders)},
        "P": {"pk": np.arange(parts)},
        "PS": {"pk": supplied, "sk": suppliers},
        "L": {"ok": rng.integers(0, orders, lines) * 4, "pk": supplied[chosen], "sk": suppliers[chosen]},
    }
    in_epochs(run, tables, 5)
    statistics = run.estimate()
    pairs = {("C.ck = O.ck",): orders, ("L.ok = O.ok",): lines, ("L.pk = P.pk",): lines, ("C.nk = N.nk",): customers}
    close(statistics, {**pairs, ("P.pk = PS.pk",): 4 * parts, ("L.pk = PS.pk", "L.sk = PS.sk"): lines}, 0.15)
    close(statistics, {("C.ck = O.ck", "L.ok = O.ok"): lines, ("C.ck = O.ck", "C.nk = N.nk"): orders}, 0.3)
    close(statistics, {("C.ck = O.ck", "L.ok = O.ok", "L.pk = P.pk"): lines}, 0.3)
    close(statistics, {("L.pk = P.pk", "L.pk = PS.pk", "L.sk = PS.sk"): lines}, 0.3)
    assert statistics.rates == {name: len(next(iter(table.values()))) for name, table in tables.items()}
    # the planner derives the sizes that were estimated
    sizes = Sizes(statistics, run.streams)
    parts_of = [q.join.sub(some) for q in run.queries for n in (2, 3, 4) for some in combinations(sorted(q.join.relations), n)]
    rows = {size_key(part): sizes.rows(part) for part in parts_of if size_key(part) in statistics.sizes}
    assert rows == pytest.approx(statistics.sizes)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("seed", [1, 2])
def test_skew(exponent: float, seed: int) -> None:
    """The frequent keys are the same ones on both sides: the worst case for the assumption that all keys are alike."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, 5_001) ** exponent

    def keys(rows: int = 20_000) -> Ints:
        return rng.choice(5_000, rows, p=shares / shares.sum())

    s, u, t = {"b": keys()}, {"c": keys()}, {"b": keys(), "c": keys()}
    run = Run.of(CHAIN, *three())
    in_epochs(run, {"S": s, "T": t, "U": u})
    left, right = count_matches(t["b"], s["b"]), count_matches(t["c"], u["c"])
    close(run.estimate(), {ST: left.sum(), TU: right.sum()}, 0.1)
    close(run.estimate(), {STU: (left * right).sum()}, 0.35)


@pytest.mark.parametrize("keys", [500, 5_000, 20_000])
def test_two_large_joins_with_nothing_in_common(keys: int) -> None:
    """ST and TU are large, STU is empty: a tuple of T has a partner in S or in U, never in both."""
    rng = np.random.default_rng(keys)
    n = 40_000
    key, left = rng.integers(0, keys, n), rng.random(n) < 0.5
    t = {"b": np.where(left, key, key + 10**7), "c": np.where(left, key + 10**7, key)}
    s, u = {"b": rng.integers(0, keys, n)}, {"c": rng.integers(0, keys, n)}
    run = Run.of(CHAIN, *three())
    in_epochs(run, {"S": s, "T": t, "U": u})
    statistics = run.estimate()
    pairs = count_matches(t["b"], s["b"]).sum(), count_matches(t["c"], u["c"]).sum()
    close(statistics, dict(zip((ST, TU), pairs, strict=True)), 0.15)
    assert statistics.sizes[STU] < 0.5 * pairs[0] * pairs[1] / n  # what independence would say


@pytest.mark.parametrize("keys", [300, 20_000])
@pytest.mark.parametrize("seed", [1, 2])
def test_strings_nulls_and_filters_that_go_along_with_keys(keys: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    run = Run.of(
        f"{CHAIN} WHERE s.v > 80 AND u.w = 'x'",
        Stream.of("S", {"b": "string", "v": "int"}),
        Stream.of("T", {"b": "string", "c": "bigint"}),
        Stream.of("U", {"c": "int", "w": "string"}),
    )
    n, m = 40_000, 5_000
    sb, tb, tc, uc = rng.integers(0, keys, n), rng.integers(0, keys // 2, n), rng.integers(0, 1_000, n), rng.integers(0, 2_000, m)
    v = np.where(sb < keys // 10, 50 + rng.integers(0, 51, n), rng.integers(0, 85, n))
    w = (uc % 7 == 0) | (rng.random(m) < 0.1)
    no_b, no_c = rng.random(n) < 0.3, rng.random(n) < 0.2
    tables: dict[str, Table] = {
        "S": {"b": pa.array([f"key {k}" for k in sb], mask=no_b), "v": pa.array(v, pa.int32())},
        "T": {"b": pa.array([f"key {k}" for k in tb]), "c": pa.array(tc, mask=no_c)},
        "U": {"c": pa.array(uc, pa.int32()), "w": pa.array(np.where(w, "x", "y"))},
    }
    in_epochs(run, tables)
    statistics = run.estimate()
    left, right = count_matches(tb, sb[~no_b & (v > 80)]), count_matches(np.where(no_c, -1, tc), uc[w])
    close(statistics, {(*ST, "<(80, S.v)"): left.sum(), (*TU, "=(U.w, 'x')"): right.sum()}, 0.3)
    close(statistics, {(*STU, "<(80, S.v)", "=(U.w, 'x')"): (left * right).sum()}, 0.5)
    assert statistics.selectivities["<(80, S.v)"] == pytest.approx((v > 80).mean(), rel=0.1)
    assert statistics.selectivities["=(U.w, 'x')"] == pytest.approx(w.mean(), rel=0.1)


@pytest.mark.parametrize("window", [1, 4, 9])
def test_keys_that_move_on(window: int) -> None:
    """Every epoch has other keys than the ones before; windows are of several epochs, of which the older ones are merged by then."""
    rng = np.random.default_rng(window)
    run = Run.of(CHAIN, *three(time="ts", window=f"{window} seconds"))
    epochs: list[dict[str, Table]] = []
    for epoch in range(24):
        low = epoch * 300
        epochs.append(
            {
                "S": {"b": rng.integers(low, low + 900, 8_000)},
                "T": {"b": rng.integers(low, low + 900, 8_000), "c": rng.integers(low, low + 600, 8_000)},
                "U": {"c": rng.integers(low, low + 600, 8_000)},
            }
        )
        run.add(epochs[-1])
    s, t, u = (concatenate([epoch[name] for epoch in epochs[-window:]]) for name in "STU")
    left, right = count_matches(t["b"], s["b"]), count_matches(t["c"], u["c"])
    statistics = run.estimate()
    assert statistics.rates == pytest.approx(dict.fromkeys("STU", 8_000 * window), rel=0.02)
    close(statistics, {ST: left.sum(), TU: right.sum()}, 0.25)
    close(statistics, {STU: (left * right).sum()}, 0.45)


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_a_stream_with_itself(share: float) -> None:
    """A tuple meets itself too, once, however few of the tuples are looked at."""
    rng = np.random.default_rng(7)
    run = Run.of("SELECT s.b FROM S s JOIN S t ON s.b = t.c JOIN S u ON t.b = u.b", Stream.of("S", {"b": "bigint", "c": "bigint"}))
    s = {"b": rng.integers(0, 3_000, 30_000), "c": rng.integers(0, 3_000, 30_000)}
    in_epochs(run, {"S": s}, share=share)
    left, right = count_matches(s["c"], s["b"]), count_matches(s["b"], s["b"])
    close(run.estimate(), {("S#2.c = S.b",): left.sum(), ("S#2.b = S#3.b",): right.sum()}, 0.15)
    close(run.estimate(), {("S#2.b = S#3.b", "S#2.c = S.b"): (left * right).sum()}, 0.3)


@pytest.mark.parametrize("keys", [200, 5_000])
def test_three_streams_on_one_key(keys: int) -> None:
    rng = np.random.default_rng(keys)
    streams = [Stream.of(name, {"b": "bigint"}) for name in "STU"]
    run = Run.of("SELECT s.b FROM S s JOIN T t ON s.b = t.b JOIN U u ON t.b = u.b", *streams)
    tables = {name: {"b": rng.integers(0, keys, 60_000)} for name in "STU"}
    in_epochs(run, tables)  # type: ignore[arg-type]
    s, t, u = (tables[name]["b"] for name in "STU")
    close(
        run.estimate(),
        {("S.b = T.b",): count_matches(t, s).sum(), ("S.b = T.b", "S.b = U.b"): (count_matches(t, s) * count_matches(t, u)).sum()},
        0.2,
    )


def test_four_streams_on_one_key_whose_center_has_no_sampled_tuple() -> None:
    """A class of four is not estimated by histograms, and without a sample of D only independence remains, whose error is unbounded."""
    columns = {"A": "k", "B": "k", "C": "k", "D": "k m", "E": "m"}
    joins = "JOIN B ON A.k = B.k JOIN C ON A.k = C.k JOIN D ON A.k = D.k JOIN E ON D.m = E.m"
    run = Run.of(f"SELECT 1 AS x FROM A {joins}", *(Stream.of(name, dict.fromkeys(of.split(), "bigint")) for name, of in columns.items()))
    run.hints["D None"] = 1e-9  # D had very many tuples in the batches before
    run.add({name: {column: np.arange(100) for column in of.split()} for name, of in columns.items()})
    assert run.estimate().sizes["A.k = B.k", "A.k = C.k", "A.k = D.k", "D.m = E.m"] == pytest.approx(100, rel=0.5)


def test_statistics_of_a_run_plan_it() -> None:
    """They can be saved, loaded, given to the planner and shown."""
    rng = np.random.default_rng(3)
    run = Run.of(f"{CHAIN} WHERE s.b > 10", *three())
    in_epochs(
        run, {"S": {"b": rng.integers(0, 99, 900)}, "T": {k: rng.integers(0, 99, 900) for k in "bc"}, "U": {"c": rng.integers(0, 99, 90)}}
    )
    statistics = run.estimate()
    assert clash.Statistics.from_json(statistics.to_json()) == statistics
    shown = str(statistics)
    assert "tuples in the window\n  S  900" in shown
    assert all(" AND ".join(key) in shown for key in statistics.sizes)
    assert normal_statistics(statistics, run.streams) == statistics
