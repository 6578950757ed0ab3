"""A query with aggregates or DISTINCT is a join core and SQL over its columns."""

from __future__ import annotations

import pytest

from clash.model.outer_query import EventTime
from clash.model.query import Query
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.sql import parse_query

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
