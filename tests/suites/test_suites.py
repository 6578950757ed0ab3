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
from tests.suites.texts import schema, sql_test

_WHOLE = {"tpch": 11, "tpcds": 41}
_CORES = {"tpch": 17, "tpcds": 83}
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
    empty = 0
    for at in range(0, len(queries), _AT_ONCE):
        some = dict(list(queries.items())[at : at + _AT_ONCE])
        folder = tmp_path / str(at)
        write_files(folder, tables(made, some.values(), at))
        wrong, counts = differing(spark, folder, made, some)
        assert wrong == {}
        empty += sum(count == 0 for count in counts.values())
    assert empty < len(queries) / 2, "most answers have rows"


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_sql_files_of_spark(spark: Any, jar: Path, name: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    outcomes = compare_file(session, sql_test(jar, name))
    assert [outcome for outcome in outcomes if outcome.verdict == "different"] == []
    assert Counter(outcome.verdict for outcome in outcomes)["equal"] >= _EQUAL[name]


_EQUAL = {"inner-join": 1, "natural-join": 20, "using-join": 4, "cte": 1, "cte-nested": 0, "cross-join": 5}


def test_a_core_has_the_join_and_no_subqueries() -> None:
    tables_of = {"R": {"a": "int", "b": "int"}, "S": {"a": "int", "c": "int"}}
    text = """WITH g AS (SELECT a, max(c) AS c FROM S GROUP BY a)
              SELECT R.b, count(*) FROM R, g WHERE R.a = g.a AND R.b IN (SELECT c FROM S) GROUP BY R.b ORDER BY 1 LIMIT 3"""
    (core,) = join_cores(text, tables_of)
    assert " ".join(core.text.split()) == "SELECT R.b AS c0 FROM R, g WHERE R.a = g.a"
    assert list(core.tables) == ["g"]
    assert without_order(text).endswith("GROUP BY R.b ")
