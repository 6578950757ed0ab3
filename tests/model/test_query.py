"""Sub-joins, the unit of sharing between queries, and how far apart in event time the parts of a result can be."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clash.model.expressions import relations
from clash.model.query import Query, SubJoin
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.sql import parse_queries, parse_query

STREAMS = {
    name: Stream.of(name, {"a": "int", "b": "int", "v": "int", "ts": "timestamp"}, time="ts", window=window)
    for name, window in (("R", "10 seconds"), ("S", "20 seconds"), ("T", None), ("U", "1 minute"))
}
R, S, T = Relation("R"), Relation("S"), Relation("T")


def query(text: str) -> Query:
    return parse_query("q", text, STREAMS)


JOINED = query("SELECT R.v FROM R, S, T WHERE R.a = S.a AND S.a = T.a AND S.b = T.b AND R.v > 1 AND T.v > 2 AND R.v < T.v AND R.v < S.v")


def test_restriction_to_some_relations() -> None:
    part = JOINED.join.sub([R, T])
    assert part.relations == {R, T}
    (equal,) = part.classes  # R.a = T.a holds by way of S, which is not part of it
    assert sorted(map(str, equal)) == ["R.a", "T.a"]
    assert len(part.filters) == 2
    assert [relations(e) for e in part.residuals] == [{R, T}]
    assert part.windows == {(R, 10_000_000), (T, None)}
    single = JOINED.join.sub([S])
    assert (single.classes, single.filters, single.residuals) == (frozenset(), frozenset(), frozenset())


@given(st.sets(st.sampled_from([R, S, T])), st.sets(st.sampled_from([R, S, T])))
def test_restricting_twice(keep: set[Relation], inner: set[Relation]) -> None:
    part = JOINED.join.sub(keep)
    assert part.sub(inner & keep) == JOINED.join.sub(inner & keep)
    assert part.sub(keep) == part
    assert JOINED.contains(part)
    assert JOINED.join.sub(JOINED.join.relations) == JOINED.join


def both(first: str, second: str) -> tuple[SubJoin, SubJoin]:
    (one, other), _ = parse_queries({"q1": first, "q2": second}, STREAMS)
    return one.join, other.join


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ("R.a = S.a AND S.b = U.b", True),
        ("S.a = R.a AND U.b = S.b", True),
        ("R.a = S.b AND S.b = U.b", False),
        ("R.a = S.a AND S.b = U.b AND R.b = S.b", False),
        ("R.a = S.a AND S.b = U.b AND R.v > 1", False),
        ("R.a = S.a AND S.b = U.b AND R.v < S.v", False),
        ("R.a = S.a AND S.b = U.b AND U.v > 1", True),
        ("R.a = S.a AND S.b = U.b AND U.v > R.v", True),
    ],
)
def test_equal_sub_joins_of_two_queries(change: str, same: bool) -> None:
    one, other = both("SELECT R.v FROM R, S WHERE R.a = S.a", f"SELECT R.v FROM R, S, U WHERE {change}")
    assert (one == other.sub([R, S])) == same


def test_windows_distinguish_sub_joins() -> None:
    one, other = both("SELECT R.v FROM R, S WHERE R.a = S.a", "SELECT /*+ WINDOW(R, '1 second') */ R.v FROM R, S WHERE R.a = S.a")
    assert one != other
    assert one.sub([S]) == other.sub([S])
    assert one.sub([R]) != other.sub([R])


def test_aliases_of_a_self_join_are_numbered() -> None:
    join = query("SELECT x.v FROM R x JOIN R y ON x.a = y.b").join
    assert sorted(map(str, join.relations)) == ["R", "R#2"]


# ---- reach ---------------------------------------------------------------------------------------------------


def slow_reach(parsed: Query, k: Relation, j: Relation) -> int | None:
    """The shortest of all simple paths from k to j: a window leads from its relation to every other, a bound from b to a."""
    if k == j:
        return 0
    windows = dict(parsed.join.windows)
    inner = sorted(parsed.join.relations - {k, j})
    best: int | None = None
    for size in range(len(inner) + 1):
        for between in itertools.permutations(inner, size):
            total: int | None = 0
            for x, y in itertools.pairwise((k, *between, j)):
                steps = [d for a, b, d in parsed.bounds if (b, a) == (x, y)]
                window = windows[x]
                if window is not None:
                    steps.append(window)
                total = None if total is None or not steps else total + min(steps)
            if total is not None and (best is None or total < best):
                best = total
    return best


@st.composite
def banded(draw: st.DrawFn) -> Query:
    """τ_a ≤ τ_b + d with d ≥ 0, so that no cycle is negative."""
    names = draw(st.lists(st.sampled_from("RSTU"), min_size=2, max_size=4))
    where = [f"x0.a = x{j}.a" for j in range(1, len(names))]
    numbers = st.integers(0, len(names) - 1)
    for _ in range(draw(st.integers(0, 5))):
        a, b = draw(numbers), draw(numbers)
        if a != b:
            where.append(f"x{a}.ts <= x{b}.ts + INTERVAL {draw(st.integers(0, 30))} SECONDS")
    return query(f"SELECT x0.v FROM {', '.join(f'{n} x{j}' for j, n in enumerate(names))} WHERE {' AND '.join(where)}")


@given(banded())
def test_reach_is_the_shortest_path(banded_query: Query) -> None:
    rels = sorted(banded_query.join.relations)
    assert banded_query.reach() == {(k, j): slow_reach(banded_query, k, j) for k in rels for j in rels}


def test_reach_by_hand() -> None:
    bounded = query("SELECT R.v FROM R, T WHERE R.a = T.a AND R.ts BETWEEN T.ts - INTERVAL 2 SECONDS AND T.ts + INTERVAL 3 SECONDS")
    assert bounded.reach() == {(R, R): 0, (T, T): 0, (R, T): 2_000_000, (T, R): 3_000_000}
    assert query("SELECT R.v FROM R, T WHERE R.a = T.a").reach()[T, R] is None
