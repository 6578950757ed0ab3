"""Expressions that Spark computes where a stream is read: equal to Spark's batch answer, across restarts and changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clash

from .expression_job import ROWS, SCHEMA, Job, values

QUERIES = {
    "fields": """SELECT R.k, R.st.n AS n, S.st.city AS city FROM R JOIN S ON R.k = S.k
        WHERE R.arr[0] > 20 AND get_json_object(S.j, '$.a') = '1'""",
    "keys": "SELECT R.k, twice(R.k) AS t, size(filter(S.arr, v -> v > 10)) AS n FROM R JOIN S ON R.st.city = S.st.city AND R.k = S.k + 1",
    "computed_keys": "SELECT R.k, S.k AS l FROM R JOIN S ON R.k % 3 = S.k % 4 WHERE R.st.n < 10",
    "null_safe": "SELECT R.k, S.x FROM R JOIN S ON R.x <=> S.x WHERE S.st.n < 9",
    "text_and_number": "SELECT R.k, S.x FROM R JOIN S ON R.k = get_json_object(S.j, '$.a') WHERE S.st.n < 20",
    "parsed": "SELECT from_json(R.j, 'a int').a AS a, S.k FROM R JOIN S ON R.k = S.k AND sha1(R.x) = sha1(S.x)",
    "nested": "SELECT d.h, S.k FROM (SELECT md5(x) AS h, k FROM R WHERE rlike(x, '[0-3]$')) d JOIN S ON d.k = S.k WHERE upper(d.h) > 'B'",
}
LATE = "SELECT transform(R.arr, v -> v + R.k)[1] AS t, S.k, soundex(S.x) AS s FROM R JOIN S ON soundex(R.x) = soundex(S.x) AND R.k = S.k"


@pytest.fixture
def job(spark: Any, tmp_path: Path) -> Job:
    return Job(spark, tmp_path)


def test_results_are_sparks(job: Job) -> None:
    """With a query that is added at run time, and goes on after a restart, which declares it no more."""
    job.write()
    run = job.engine(QUERIES).start()
    try:
        run.process_all_available()
        run.add_query("late", LATE)
        job.write()
        run.process_all_available()
    finally:
        run.stop()
    assert "COMPUTED by Spark" in run.explain()
    job.write()
    run = job.engine(QUERIES).start(available_now=True)
    assert run.await_termination(300)
    job.check(run, QUERIES)
    for stream in "RS":
        assert job.spark.read.schema(SCHEMA).parquet(str(job.root / stream)).count() == 3 * ROWS
    found = values(run.results("late"))  # of the rows that came before it, there are no such columns
    assert found == job.expected(LATE, first=1)
    assert found
    job.write()
    assert job.engine({}).start(available_now=True).await_termination(300)  # the queries that read the column itself are removed
    job.write()
    with pytest.raises(clash.CheckpointError, match="cannot be computed any more"):  # "late" still uses the column
        job.engine({}, lambda df: df.selectExpr("* EXCEPT (x)", "array(x) AS x")).start(available_now=True).await_termination(300)


def test_a_run_whose_tasks_read_the_files_until_then(job: Job) -> None:
    """They read them again after the next start, when no query needs Spark for them."""
    plain = {"plain": "SELECT R.k, R.x, S.x AS y FROM R JOIN S ON R.k = S.k"}
    job.write()
    run = job.engine(plain).start()
    try:
        run.process_all_available()
        added = run.add_query("late", LATE)
        job.write()
        run.process_all_available()
        run.remove_query("late")
        job.write()
        run.process_all_available()
    finally:
        run.stop()
    assert added.batch is not None
    assert run.results("late").count()
    job.write()
    run = job.engine(plain).start(available_now=True)
    assert run.await_termination(300)
    job.check(run, plain)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("nosuch(R.k)", "UNRESOLVED_ROUTINE"),
        ("shuffle(R.arr)", "not deterministic"),
        ("unhex(R.arr)", "DATATYPE_MISMATCH"),
    ],
)
def test_what_spark_cannot_compute_of_one_stream(job: Job, expression: str, reason: str) -> None:
    job.write()
    with pytest.raises(clash.QueryError) as caught:
        job.engine({"q": f"SELECT {expression} AS v FROM R JOIN S ON R.k = S.k"})
    assert reason in str(caught.value)
