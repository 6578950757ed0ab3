"""Expressions over several streams, which Spark computes of the joined rows: equal to Spark's batch answer, whatever the sink."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import clash

from .expression_job import Job, values

JOINED = "FROM R JOIN S ON R.k = S.k"
QUERIES = {
    "outputs": f"SELECT R.k, levenshtein(R.x, S.j) AS d, concat_ws('/', R.x, md5(S.x)) AS c, R.k + S.k AS sum {JOINED}",
    "conditions": f"SELECT * {JOINED} WHERE levenshtein(R.x, S.x) < 2 AND NOT (soundex(R.x) < soundex(S.j) AND R.k > 2) AND R.st.n < 20",
    "nested": f"SELECT named_struct('a', R.k, 'b', S.arr) AS s, array(R.x, S.x) AS a, map(R.k, S.st) AS m {JOINED} WHERE R.st.n < 9",
    "derived": f"""WITH d AS (SELECT levenshtein(R.x, S.x) AS z, R.x || S.x AS w, R.k * 2 AS twice, S.st.city AS city {JOINED})
        SELECT z + 1 AS z, upper(w) AS w, soundex(w) AS s, least(z, twice) AS least, city FROM d WHERE z >= 1 AND sha1(w) > city""",
    "function": f"SELECT labelled(R.x, S.k) AS l, filter(R.arr, v -> v > S.st.n) AS f {JOINED} WHERE R.st.city <> S.st.city",
    "texts": f"""SELECT to_char(R.k * S.k, '0000') AS c, sha1(R.x || 'it''s ' 'so' || S.x) AS h, struct(R.k, S.x) AS s,
        date_format(R.ts - INTERVAL 1 DAY 2 HOURS, "y'T'D") || S.x AS t {JOINED}""",
    "times": f"SELECT date_format(R.ts, 'EEE dd') || date_format(S.ts, ' HH:mm') AS t, months_between(R.ts, S.ts) AS m {JOINED}",
}
TOTAL = f"SELECT R.k, sum(S.st.n) AS n, max(levenshtein(R.x, S.j)) AS d {JOINED} WHERE levenshtein(R.x, S.x) > 0 GROUP BY R.k"
LATE = f"SELECT R.k, soundex(R.x || S.j) AS s {JOINED} WHERE levenshtein(R.x, S.x) = 1"


@pytest.fixture
def job(spark: Any, tmp_path: Path) -> Job:
    return Job(spark, tmp_path)


def test_results_are_sparks_in_every_sink(job: Job, tmp_path: Path) -> None:
    """On after a stop, with a query that is added at run time and replaced, and that the program never declares."""
    handed: dict[int, Counter[str]] = {}
    sinks = {
        "outputs": clash.sinks.Parquet(tmp_path / "out"),
        "nested": clash.sinks.ForeachBatch(lambda df, batch: handed.update({batch: values(df)})),
        "times": clash.sinks.Memory(),
    }
    job.write()
    run = job.engine({**QUERIES, "total": TOTAL}, sinks=sinks).start()
    try:
        run.process_all_available()
        run.add_query("late", LATE)
        job.write()
        run.process_all_available()
        job.check(run, {"times": QUERIES["times"]})
        run.replace_query("late", LATE.replace("= 1", "= 0"))
        job.write()
        run.process_all_available()
    finally:
        run.stop()
    assert run.exception is None
    text = run.explain()
    assert "COMPUTED by Spark of joined rows" in text
    job.write()
    run = job.engine({**QUERIES, "total": TOTAL}, sinks=sinks).start(available_now=True)
    assert run.await_termination(300)
    job.check(run, {name: text for name, text in QUERIES.items() if name not in ("nested", "times")} | {"total": TOTAL})
    assert sum(handed.values(), Counter()) == job.expected(QUERIES["nested"])
    # the first one has left as many columns in the same folder, of the batch in which it was live
    first, second = LATE, LATE.replace("= 1", "= 0")
    expected = job.expected(first, 2) - job.expected(first, 1) + job.expected(second) - job.expected(second, 2)
    assert values(run.results("late")) == expected != Counter()
    assert not [*tmp_path.rglob("_staging/*.parquet")]


def test_a_function_that_has_changed(job: Job) -> None:
    job.write()
    text = f"SELECT changed(R.x, S.k) AS l {JOINED}"
    job.spark.udf.register("changed", lambda text, number: f"{text}{number}", "string")
    assert job.engine({"q": text}).start(available_now=True).await_termination(300)
    job.write()
    run = job.engine({"q": text}).start(available_now=True)
    assert run.await_termination(300)
    job.check(run, {"q": text})
    assert "COMPUTED by Spark, which reads" not in run.explain()  # tasks read the files
    run = job.engine({}).start()
    try:
        run.add_query("late", text)
        job.write()
        run.process_all_available()
    finally:
        run.stop()
    assert run.queries == {"late": text}
    job.spark.udf.register("changed", lambda text, number: number, "bigint")
    job.write()
    with pytest.raises(clash.CheckpointError, match="it was string and is bigint now"):
        job.engine({}).start(available_now=True).await_termination(300)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("nosuch(R.k, S.k)", "UNRESOLVED_ROUTINE"),
        ("levenshtein(R.x, S.arr)", "DATATYPE_MISMATCH"),
        ("shuffle(array(R.k, S.k))", "not deterministic"),
        ("R.k + S.k + rand()", "not deterministic"),
        ("R.ts + (current_timestamp() - S.ts)", "depends on when"),
        ("explode(array(R.k, S.k))", "explode"),
        ("R.x.nosuch || S.x", "FIELD"),
        ("sum(R.k) OVER (PARTITION BY S.k)", "window functions are not supported"),
    ],
)
def test_what_spark_cannot_compute_of_joined_rows(job: Job, expression: str, reason: str) -> None:
    job.write()
    with pytest.raises(clash.QueryError) as caught:
        job.engine({"q": f"SELECT {expression} AS v {JOINED}"})
    assert reason.lower() in str(caught.value).lower()
    assert caught.value.detail
    assert caught.value.hint


def test_a_row_that_spark_cannot_compute_ends_the_run(job: Job) -> None:
    job.write()
    run = job.engine({"q": f"SELECT R.k DIV length(sha1(S.x)) + 1 / levenshtein(R.x, S.x) AS d {JOINED}"})
    run = run.start(available_now=True)
    with pytest.raises(clash.ClashError, match="DIVIDE_BY_ZERO"):
        run.await_termination(300)
