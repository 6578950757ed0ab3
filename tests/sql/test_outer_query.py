"""A query with aggregates or DISTINCT is a join core and SQL over its columns."""

from __future__ import annotations

import pytest

from clash.errors import QueryError
from clash.model.outer_query import EventTime
from clash.model.query import Query
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.sql import parse_query

from .streams import STREAMS as PLAIN

STREAMS = {
    "o": Stream.of("o", {"id": "bigint", "ts": "timestamp", "total": "double", "Name": "string"}, time="ts"),
    "c": Stream.of("c", {"id": "bigint", "at": "timestamp", "region": "string", "other": "timestamp"}, time="at"),
}
FROM = "FROM o JOIN c ON o.id = c.id WHERE o.total > 1"


def parsed(text: str) -> tuple[Query, list[str], str]:
    query = parse_query("q", text, STREAMS)
    assert query.outer is not None
    return query, [output.name for output in query.outputs], query.outer.sql


@pytest.mark.parametrize(
    ("text", "columns", "sql"),
    [
        (f"SELECT count(*) {FROM}", ["row"], "SELECT count(*) AS `count(*)` FROM join_core"),
        (
            f"SELECT c.region, sum(total) AS s {FROM} GROUP BY c.Region HAVING s > 3;",
            ["c.region", "total"],
            "SELECT `c.region` AS `region`, sum(`total`) AS s FROM join_core GROUP BY `c.region` HAVING s > 3",
        ),
        (
            f"SELECT DISTINCT o.id, region {FROM}",
            ["o.id", "region"],
            "SELECT `o.id` AS `id`, `region` AS `region` FROM join_core GROUP BY ALL",
        ),
        ("SELECT DISTINCT c.* FROM o JOIN c ON o.id = c.id", ["id", "at", "region", "other"], "SELECT * FROM join_core GROUP BY ALL"),
        (
            f"SELECT DISTINCT count(*) AS n {FROM} GROUP BY region",
            ["region"],
            "SELECT * FROM (SELECT count(*) AS n FROM join_core GROUP BY `region`) GROUP BY ALL",
        ),
        (  # as in Spark, a name in GROUP BY means a column before it means an output
            f"SELECT upper(region) AS region, year(ts) AS y, max(`name`) {FROM} GROUP BY region, y",
            ["ts", "name", "region"],
            "SELECT upper(`region`) AS region, year(`ts`) AS y, max(`name`) AS `max(``name``)` FROM join_core GROUP BY `region`, y",
        ),
        (  # text in quotes is not touched
            f"SELECT max('o.id, region FROM c'), min(o.id IS DISTINCT FROM c.id) AS m {FROM}",
            ["o.id", "c.id"],
            "SELECT max('o.id, region FROM c') AS `max('o.id, region FROM c')`, min(`o.id` IS DISTINCT FROM `c.id`) AS m FROM join_core",
        ),
        (
            "WITH d AS (SELECT id, total * 2 AS twice FROM o) SELECT sum(d.twice) AS t FROM (SELECT id FROM c) e JOIN d ON d.id = e.id",
            ["d.twice"],
            "SELECT sum(`d.twice`) AS t FROM join_core",
        ),
    ],
)
def test_the_text_is_kept_except_for_names(text: str, columns: list[str], sql: str) -> None:
    assert parsed(text)[1:] == (columns, sql)


def test_the_join_core_has_the_conditions() -> None:
    query, _, _ = parsed(f"SELECT region, count(*) {FROM} GROUP BY region")
    assert len(query.join.relations) == 2
    assert len(query.join.filters) == 1


@pytest.mark.parametrize(
    ("text", "event_time"),
    [
        (f"SELECT window(c.at, '5 minutes') AS w, count(*) {FROM} GROUP BY w", EventTime("c.at", Relation("c", 0))),
        (f"SELECT window.start, count(*) {FROM} GROUP BY window(ts, '5 minutes', '1 minute')", EventTime("ts", Relation("o", 0))),
        (f"SELECT count(*) {FROM} GROUP BY session_window(o.ts, '5 minutes')", EventTime("o.ts", Relation("o", 0))),
        (f"SELECT o.ts, count(*) {FROM} GROUP BY o.ts", EventTime("o.ts", Relation("o", 0))),
        (f"SELECT DISTINCT o.ts AS t {FROM}", EventTime("o.ts", Relation("o", 0))),
        (f"SELECT count(*) {FROM} GROUP BY window(c.other, '5 minutes')", None),
        (f"SELECT max(o.ts) {FROM} GROUP BY region", None),
    ],
)
def test_the_event_time_that_it_groups_by(text: str, event_time: EventTime | None) -> None:
    outer = parsed(text)[0].outer
    assert outer is not None
    assert outer.event_time == event_time


_NESTED = {
    "SELECT k FROM (SELECT a AS k, count(*) AS n FROM R GROUP BY a) g WHERE n > 3": (
        "SELECT `a` AS k, count(*) AS n FROM join_core GROUP BY `a`",
        "SELECT k FROM (SELECT * FROM join_groups) g WHERE n > 3",
    ),
    "WITH f AS (SELECT a FROM R), g AS (SELECT DISTINCT a FROM f) SELECT x.a FROM g x JOIN g y ON x.a < y.a": (
        "SELECT `a` AS `a` FROM join_core GROUP BY ALL",
        "WITH g AS (SELECT * FROM join_groups) SELECT x.a FROM g x JOIN g y ON x.a < y.a",
    ),
    "WITH g AS (SELECT a, count(*) AS n FROM R GROUP BY a) SELECT a, n FROM g UNION ALL SELECT NULL, max(n) FROM g": (
        "SELECT `a` AS `a`, count(*) AS n FROM join_core GROUP BY `a`",
        "WITH g AS (SELECT * FROM join_groups) SELECT a, n FROM g UNION ALL SELECT NULL, max(n) FROM g",
    ),
    "SELECT max(n) AS m FROM (SELECT u.a, count(*) AS n FROM (SELECT a FROM R UNION ALL SELECT a FROM S) u GROUP BY u.a)": (
        "SELECT `u.a` AS `a`, count(*) AS n FROM join_core GROUP BY `u.a`",
        "SELECT max(n) AS m FROM (SELECT * FROM join_groups)",
    ),
}


_NESTED |= {
    "SELECT R.a, sum(b) * 100 / sum(sum(b)) OVER (PARTITION BY a) AS share, rank() OVER (ORDER BY count(*)) FROM R GROUP BY R.a": (
        "SELECT `r.a` AS `_0`, sum(`b`) AS `_1`, count(*) AS `_2` FROM join_core GROUP BY `r.a`",
        "SELECT `_0` AS `a`, `_1` * 100 / sum(`_1`) OVER (PARTITION BY `_0`) AS share, rank() OVER (ORDER BY `_2`) AS "
        "`rank() OVER (ORDER BY count(*))` FROM join_groups",
    ),
    "SELECT k FROM (SELECT a % 5 AS k, avg(sum(b)) OVER (PARTITION BY grouping(a % 5)) AS m FROM R GROUP BY ROLLUP(a % 5)) t WHERE m > 1": (
        "SELECT `a` % 5 AS `_0`, sum(`b`) AS `_1`, grouping(`a` % 5) AS `_2` FROM join_core GROUP BY ROLLUP(`a` % 5)",
        "SELECT k FROM (SELECT `_0` AS k, avg(`_1`) OVER (PARTITION BY `_2`) AS m FROM join_groups) t WHERE m > 1",
    ),
}


@pytest.mark.parametrize("text", _NESTED)
def test_groups_inside_of_a_query(text: str) -> None:
    for branch in parse_query("q", text, PLAIN).branches:
        assert branch.outer is not None
        assert (branch.outer.sql, branch.outer.final) == _NESTED[text]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT S.b FROM (SELECT DISTINCT a FROM R) d JOIN S USING (a)",  # groups and a stream
        "SELECT n FROM (SELECT count(*) AS n FROM R) x CROSS JOIN (SELECT count(*) AS m FROM S) y",  # two sets of groups
        "WITH f AS (SELECT a FROM R), g AS (SELECT a, count(*) AS n FROM f GROUP BY a) SELECT g.n FROM g JOIN f USING (a)",
        "WITH g AS (SELECT a, count(*) AS n FROM R GROUP BY a) SELECT a FROM R",  # not used, and not valid as a join
        "SELECT n FROM (SELECT a, count(*) AS n FROM R WHERE a IN (SELECT a FROM S) GROUP BY a)",
        "SELECT n FROM (SELECT count(*) AS n FROM R GROUP BY a) ORDER BY n",
        "SELECT n FROM (SELECT count(*) AS n FROM R GROUP BY a) LIMIT 3",
        "SELECT a, sum(b) OVER () AS s FROM R",
        "SELECT a, b, sum(sum(b)) OVER () AS s FROM R GROUP BY a",
    ],
)
def test_more_than_selects_over_one_set_of_groups(text: str) -> None:
    with pytest.raises(QueryError, match="not supported"):
        parse_query("q", text, PLAIN)
