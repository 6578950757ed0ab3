"""What of TPC-H, TPC-DS and Spark's own SQL tests is accepted, and that what is accepted gives Spark's answers."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.servers.programs import get
from tests.suites.answers import differing, write_files
from tests.suites.cores import join_cores, without_order
from tests.suites.data import tables
from tests.suites.sql_files import FILES, compare_file
from tests.suites.survey import Survey
from tests.suites.texts import schema, sql_test, texts

_WHOLE = {"tpch": 11, "tpcds": 41}
_CORES = {"tpch": 17, "tpcds": 83}
_EMPTY = {"tpch": 0, "tpcds": 5}  # answers without a row, at most
_QUICK = ("q3", "q5", "q6", "q13", "q14", "q15")  # of TPC-H, in CI
_WITH_NATIONS = ("q5", "q8", "q10")
_AT_ONCE = 7
_REFUSED_ON_PURPOSE = (
    "outer join|EXISTS|IN \\(SELECT|subqueries|aggregates|window functions|INTERSECT|EXCEPT|UNION is not|DISTINCT|GROUP BY|ORDER BY|LIMIT"
    "|not all relations are joined by an equality|two outputs are called"
)


@pytest.fixture(scope="module")
def jar() -> Path:
    return get("spark-tests")


@pytest.fixture(scope="module")
def surveys(spark: Any, jar: Path) -> dict[str, Survey]:
    return {suite: Survey(spark.newSession(), jar, suite) for suite in _WHOLE}


def test_some_queries_of_tpch(spark: Any, jar: Path, tmp_path: Path) -> None:
    """In CI, what the tests below do for all queries."""
    survey = Survey(spark.newSession(), jar, "tpch", _QUICK)
    assert survey.summary() == "4 of 6 whole, all join cores of 4 of 5"
    assert_answers(spark, jar, tmp_path, survey.whole)


def test_tpch_with_region_and_nation_as_tables(spark: Any, jar: Path, tmp_path: Path) -> None:
    queries = {name: without_order(text) for name, text in texts(jar, "tpch").items() if name in _WITH_NATIONS}
    assert_answers(spark, jar, tmp_path, queries, as_tables=("region", "nation"))


def assert_answers(spark: Any, jar: Path, folder: Path, queries: dict[str, str], as_tables: tuple[str, ...] = ()) -> None:
    made = schema(jar, "tpch")
    write_files(folder, tables(made, queries.values(), 0))
    wrong, counts = differing(spark, folder, made, queries, as_tables)
    assert wrong == {}
    assert min(counts.values()) > 0, counts


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["tpch", "tpcds"])
def test_counts(surveys: dict[str, Survey], suite: str) -> None:
    """Docs have these numbers: when more is accepted, they change with this test."""
    found = surveys[suite].found
    numbers = {name: re.sub(r"\D", "", name) for name in found}
    refused = {numbers[name] for name, each in found.items() if each.whole}
    assert len(set(numbers.values()) - refused) == _WHOLE[suite], surveys[suite].summary()
    assert sum(each.has_cores and not each.refused_cores for each in found.values()) == _CORES[suite], surveys[suite].summary()
    reasons = [each.whole for each in found.values() if each.whole] + [reason for each in found.values() for reason in each.refused_cores]
    assert [reason for reason in reasons if not re.search(_REFUSED_ON_PURPOSE, reason)] == []


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["tpch", "tpcds"])
def test_answers_are_sparks(spark: Any, jar: Path, surveys: dict[str, Survey], suite: str, tmp_path: Path) -> None:
    queries, made = surveys[suite].whole, schema(jar, suite)
    empty = []
    for at in range(0, len(queries), _AT_ONCE):
        some = dict(list(queries.items())[at : at + _AT_ONCE])
        folder = tmp_path / str(at)
        write_files(folder, tables(made, some.values(), at))
        wrong, counts = differing(spark, folder, made, some)
        assert wrong == {}
        empty += [name for name, count in counts.items() if not count]
    assert len(empty) <= _EMPTY[suite], f"without rows: {empty}"


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_sql_files_of_spark(spark: Any, jar: Path, name: str, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    outcomes = compare_file(session, sql_test(jar, name), tmp_path)
    assert [outcome for outcome in outcomes if outcome.verdict == "different"] == []
    counts = Counter(outcome.verdict for outcome in outcomes)
    assert (counts["equal"] + counts["equal but for names"], counts["equal but for names"]) == _EQUAL[name], counts
    assert counts["accepted by us alone"] == 0


_EQUAL = {
    "inner-join": (1, 0), "natural-join": (20, 7), "using-join": (4, 1), "cte": (7, 0), "cte-nested": (0, 0), "cross-join": (6, 5),
}  # fmt: skip
"""The queries with Spark's rows, and those of them whose columns have other names; docs have these numbers."""


def test_a_core_has_the_join_and_no_subqueries() -> None:
    tables_of = {"R": {"a": "int", "b": "int"}, "S": {"a": "int", "c": "int"}}
    text = """WITH g AS (SELECT a, max(c) AS c FROM S GROUP BY a)
              SELECT R.b, count(*) FROM R, g WHERE R.a = g.a AND R.b IN (SELECT c FROM S) GROUP BY R.b ORDER BY 1 LIMIT 3"""
    (core,) = join_cores(text, tables_of)
    assert " ".join(core.text.split()) == "SELECT R.b AS c0 FROM R, g WHERE R.a = g.a"
    assert list(core.tables) == ["g"]
    assert without_order(text).endswith("GROUP BY R.b ")
