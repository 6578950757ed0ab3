"""Known sizes of joins: by streams whatever the predicates, or by predicates, for exactly that join."""

from __future__ import annotations

import pytest

import clash
from clash.model.query import SubJoin
from clash.model.stream import Stream
from clash.planner.cardinalities import Sizes
from clash.sql import parse_query
from clash.sql.statistics_text import normal_statistics

STREAMS = {name: Stream.of(name, {"a": "bigint", "b": "bigint", "c": "bigint", "v": "int"}) for name in "RSTU"}


def join(text: str) -> SubJoin:
    return parse_query("q", f"SELECT 1 AS x FROM {text}", STREAMS).join


def rows(text: str, sizes: dict[tuple[str, ...], float], **more: float) -> float:
    statistics = clash.Statistics(default_rate=100, default_selectivity=0.01, sizes=sizes, selectivities=more)
    return Sizes(normal_statistics(statistics, STREAMS), STREAMS).rows(join(text))


def test_only_the_join_with_exactly_these_equalities() -> None:
    known = {("S.b = T.b", "S.c = T.c"): 70.0}
    both = "S JOIN T ON S.b = T.b AND S.c = T.c"
    assert rows(both, known) == pytest.approx(70)
    assert rows("S JOIN T ON S.b = T.b", known) == pytest.approx(100)
    assert rows("S JOIN T ON S.b = T.c AND S.c = T.b", known) == pytest.approx(1)
    assert rows(f"{both} JOIN U ON T.a = U.a", known) == pytest.approx(70)
    # a key of streams goes by streams alone, as before
    assert rows("S JOIN T ON S.b = T.b", {("S", "T"): 70.0}) == pytest.approx(70)


def test_equalities_are_closed() -> None:
    known: dict[tuple[str, ...], float] = {("U.a=T.a", "S.a = T.a"): 7.0}
    assert clash.Statistics(sizes=known).sizes == {("S.a = T.a", "S.a = U.a"): 7.0}
    assert rows("S JOIN T ON S.a = T.a JOIN U ON S.a = U.a", known) == pytest.approx(7)
    assert rows("S JOIN T ON S.a = T.a JOIN U ON S.b = U.b", known) == pytest.approx(100)


def test_small_ones_count_inside_larger_ones() -> None:
    known: dict[tuple[str, ...], float] = {("R.a = S.a",): 50, ("S.b = T.b",): 400, ("R.a = S.a", "S.b = T.b"): 3}
    assert rows("R JOIN S ON R.a = S.a", known) == pytest.approx(50)
    assert rows("R JOIN S ON R.a = S.a JOIN T ON S.b = T.b", known) == pytest.approx(3)
    del known["R.a = S.a", "S.b = T.b"]
    assert rows("R JOIN S ON R.a = S.a JOIN T ON S.b = T.b", known) == pytest.approx(200)
    assert rows("R JOIN S ON R.a = S.a JOIN T ON S.b = T.b JOIN U ON T.c = U.c", {**known, ("T.c = U.c",): 10}) == pytest.approx(20)


def test_filters_in_the_key() -> None:
    known: dict[tuple[str, ...], float] = {("R.a = S.a",): 50, ("R.a = S.a", "R.v > 5"): 2}
    assert rows("R JOIN S ON R.a = S.a", known) == pytest.approx(50)
    assert rows("R JOIN S ON R.a = S.a WHERE R.v > 5", known) == pytest.approx(2)
    assert rows("R JOIN S ON R.a = S.a WHERE 5 < R.v AND S.v > 7", known, **{"S.v > 7": 0.25}) == pytest.approx(0.5)
    assert rows("R JOIN S ON R.a = S.a WHERE R.v > 6", known, **{"R.v > 6": 0.1}) == pytest.approx(5)
    # a filter on one alone comes on top of a plain size
    assert rows("R JOIN S ON R.a = S.a JOIN T ON S.b = T.b WHERE R.v > 5", {**known, ("S.b = T.b",): 400}) == pytest.approx(8)


def test_a_stream_with_itself() -> None:
    known: dict[tuple[str, ...], float] = {("S.b = S#2.c",): 900}
    assert rows("S x JOIN S y ON x.b = y.c", known) == pytest.approx(900)
    assert rows("S x JOIN S y ON x.c = y.b", known) == pytest.approx(900)  # the same join, the other way round
    assert rows("S x JOIN S y ON x.b = y.b", known) == pytest.approx(100)
    # x–y and y–z are such joins, x–z is none
    assert rows("S x JOIN S y ON x.b = y.c JOIN S z ON y.b = z.c", known) == pytest.approx(8100)
    filtered = {**known, ("S.b = S#2.c", "<(5, S#2.v)"): 3.0}
    assert rows("S x JOIN S y ON x.b = y.c WHERE y.v > 5", filtered) == pytest.approx(3)
    assert rows("S x JOIN S y ON x.b = y.c WHERE x.v > 5", filtered, **{"S.v > 5": 0.5}) == pytest.approx(450)


def test_other_windows_than_the_streams_own() -> None:
    streams = {name: Stream.of(name, {"a": "bigint", "ts": "timestamp"}, time="ts", window="10 seconds") for name in "RS"}
    half = parse_query("q", "SELECT /*+ WINDOW(R, '5 seconds') */ R.a FROM R JOIN S ON R.a = S.a", streams).join
    sizes = Sizes(clash.Statistics(default_rate=100, sizes={("R.a = S.a",): 60}), streams)
    assert sizes.rows(half) == pytest.approx(30)


@pytest.mark.parametrize("key", [("S.b = S.c",), ("S.b = ", "T"), ("R.v > 5",), ("S.a > T.a",)])
def test_keys_that_name_no_join(key: tuple[str, ...]) -> None:
    if len(key) == 2:
        clash.Statistics(sizes={key: 1})  # two odd streams, which no query has
    else:
        with pytest.raises(clash.errors.OptionError):
            clash.Statistics(sizes={key: 1})


def test_the_planner_takes_them() -> None:
    queries = {"q": "SELECT R.v FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b JOIN U ON T.c = U.c"}

    def cost(outer: float, inner: float) -> float:
        known: dict[tuple[str, ...], float] = {("R.a = S.a",): outer, ("S.b = T.b",): inner, ("T.c = U.c",): outer}
        statistics = clash.Statistics(default_rate=100, sizes=known)
        return clash.optimize(queries, statistics, streams=STREAMS.values(), cost="probe", time_limit=5.0).cost

    assert cost(10, 10_000) < cost(10_000, 10)  # two small joins are better than one


def test_queries_that_join_the_streams_of_a_key_differently_do_not_depend_on_their_order() -> None:
    """Found at random: the factor of the first join that was looked at counted for all, whose order was that of a set."""
    statistics = clash.Statistics(default_rate=100, default_selectivity=0.01, sizes={("S", "T"): 70.0}, selectivities={"S.a = T.a": 0.0})
    joins = [join("S JOIN T ON S.b = T.b"), join("S JOIN T ON S.a = T.a AND S.b = T.b")]
    for order in (joins, joins[::-1]):
        sizes = Sizes(normal_statistics(statistics, STREAMS), STREAMS)
        assert {one: sizes.rows(one) for one in order} == pytest.approx({joins[0]: 70.0, joins[1]: 0.0})
