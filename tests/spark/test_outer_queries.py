"""Aggregates and DISTINCT behind a join, on Spark: equal to DuckDB's over the rows of the join, in every mode, on after a stop."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clash

from .files import COLUMNS, WITHIN, declare, write

JOINED = "FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b"
BY_KEY = f"SELECT S.b % 5 AS k, count(*) AS n, sum(R.x) AS total, max(y) AS y {JOINED} GROUP BY S.b % 5"
HAVING = f"SELECT R.a, count(*) AS n {JOINED} GROUP BY R.a HAVING n < 40 AND sum(T.y) > 300"
DISTINCT = f"SELECT DISTINCT R.a % 7 AS r, S.b {JOINED}"
WINDOWS = f"SELECT window(R.ts, '1 second').start AS at, S.b % 3 AS k, sum(T.y) AS y {JOINED} GROUP BY window(R.ts, '1 second'), k"
WINDOWS_IN_DUCKDB = f"SELECT date_trunc('second', R.ts) AS at, S.b % 3 AS k, sum(T.y) AS y {JOINED} WHERE {WITHIN} GROUP BY ALL"

SHARES = f"SELECT S.b % 5 AS k, sum(T.y) AS y, sum(T.y) * 1000 div sum(sum(T.y)) OVER () AS share {JOINED} GROUP BY S.b % 5"
UNION = (
    "SELECT u.k, count(*) AS n, sum(u.v) AS v FROM (SELECT a % 5 AS k, x AS v, ts FROM R UNION ALL SELECT b, y, ts FROM T) u GROUP BY u.k"
)
BOTH = f"SELECT R.a, T.y, 'r' AS src {JOINED} UNION ALL SELECT T.b, T.y, 't' FROM T WHERE T.y > 20"
UNION_WINDOWS = """SELECT window(u.at, '1 second').start AS at, count(*) AS n
                   FROM (SELECT ts AS at, a FROM R UNION ALL SELECT ts, a FROM S) u GROUP BY window(u.at, '1 second')"""
UNION_WINDOWS_IN_DUCKDB = (
    "SELECT date_trunc('second', ts) AS at, count(*) AS n FROM (SELECT ts FROM R UNION ALL SELECT ts FROM S) GROUP BY ALL"
)


NESTED = f"""WITH g AS (SELECT R.a % 7 AS k, count(*) AS n, sum(T.y) AS y {JOINED} GROUP BY R.a % 7)
             SELECT k, n, rank() OVER (ORDER BY n DESC, k) AS r, y * 100 div (SELECT sum(y) FROM g) AS share FROM g WHERE n > 2"""


def expected(root: Path, text: str, is_windowed: bool = True) -> Counter[str]:
    """DuckDB's answer; the window of the streams goes before GROUP BY."""
    head, group, tail = text.partition(" GROUP BY")
    text = text if "WHERE" in text or not is_windowed else f"{head} WHERE {WITHIN}{group}{tail}"
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        for stream in COLUMNS:
            connection.register(stream, pq.read_table(root / stream))
        return rows_of(connection.sql(text).to_arrow_table())


def rows_of(table: pa.Table) -> Counter[str]:
    return Counter(str([int(v) if not hasattr(v, "isoformat") else v.isoformat() for v in row.values()]) for row in table.to_pylist())


def latest(table: pa.Table, keys: int) -> Counter[str]:
    """The last row of each key, by the number of its batch; the keys come first."""
    last: dict[Any, dict[str, Any]] = {}
    for row in sorted(table.to_pylist(), key=lambda row: row["_batch"]):
        last[tuple([*row.values()][:keys])] = {name: value for name, value in row.items() if name != "_batch"}
    return rows_of(pa.Table.from_pylist([*last.values()]))


def test_every_mode_and_sink_and_on_after_a_stop(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    handed: dict[int, Counter[str]] = {}

    def engine() -> Any:
        made = clash.Engine(spark, checkpoint, workers=2)
        declare(made, spark, tmp_path)
        made.query("kept", BY_KEY)
        made.query("having", HAVING, sink=clash.sinks.Memory(), mode="complete")
        made.query("distinct", DISTINCT, sink=clash.sinks.Parquet(tmp_path / "out"), mode="update")
        made.query(
            "each", f"SELECT count(*) {JOINED}", sink=clash.sinks.ForeachBatch(lambda df, n: handed.update({n: rows_of(df.toArrow())}))
        )
        made.query("windows", WINDOWS, mode="append")
        made.query("union", UNION)
        made.query("nested", NESTED)
        made.query("shares", SHARES)
        made.query("both", BOTH, sink=clash.sinks.Parquet(tmp_path / "both"))
        made.query("union_windows", UNION_WINDOWS, mode="append")
        return made

    write(tmp_path, range(4))
    run = engine().start(available_now=True)
    assert run.await_termination(300)
    assert rows_of(run.results("kept").toArrow()) == expected(tmp_path, BY_KEY)
    assert rows_of(run.results("having").toArrow()) == expected(tmp_path, HAVING)

    write(tmp_path, range(4, 6))
    run = engine().start()
    try:
        run.process_all_available()
        write(tmp_path, range(6, 8))
        run.process_all_available()
        assert run.progress["outer"]["kept"]["groups"] == 5
    finally:
        run.stop()
    assert run.exception is None
    assert rows_of(run.results("kept").toArrow()) == expected(tmp_path, BY_KEY)
    assert rows_of(run.results("having").toArrow()) == expected(tmp_path, HAVING)
    assert latest(run.results("distinct").toArrow(), 2) == expected(tmp_path, DISTINCT)
    assert latest(pq.read_table(tmp_path / "out"), 2) == expected(tmp_path, DISTINCT)
    assert handed[max(handed)] == expected(tmp_path, f"SELECT count(*) {JOINED}")
    assert rows_of(run.results("shares").toArrow()) == expected(tmp_path, SHARES.replace(" div ", " // "))
    nested = NESTED.replace(" div ", " // ").replace(" GROUP BY", f" WHERE {WITHIN} GROUP BY")
    assert rows_of(run.results("nested").toArrow()) == expected(tmp_path, nested)
    assert rows_of(run.results("union").toArrow()) == expected(tmp_path, UNION, is_windowed=False)
    both = BOTH.replace(" UNION ALL", f" WHERE {WITHIN} UNION ALL")
    with duckdb.connect() as connection:
        for stream in COLUMNS:
            connection.register(stream, pq.read_table(tmp_path / stream))
        assert Counter(connection.sql(both).fetchall()) == Counter(map(tuple, run.results("both").collect()))
    closed = {row for row in expected(tmp_path, UNION_WINDOWS_IN_DUCKDB, is_windowed=False) if row < "['1970-01-01T00:00:04"}
    assert closed <= rows_of(run.results("union_windows").toArrow()).keys()
    assert rows_of(run.results("union_windows").toArrow()) <= expected(tmp_path, UNION_WINDOWS_IN_DUCKDB, is_windowed=False)
    windows = rows_of(run.results("windows").toArrow())
    assert windows
    assert windows <= expected(tmp_path, WINDOWS_IN_DUCKDB)
    closed = {row for row in expected(tmp_path, WINDOWS_IN_DUCKDB) if row < "['1970-01-01T00:00:04"}
    assert closed <= windows.keys()
    assert len(list(Path(checkpoint, "clash", "outer").rglob("*.parquet"))) < 60, "files that are read are deleted"
    with pytest.raises(clash.OptionError, match="not kept"):
        run.results("each")
    with pytest.raises(clash.OptionError, match="not a stream"):
        run.result_stream("kept")


def test_added_replaced_and_removed_while_it_runs(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    def deliver(*seconds: int) -> None:
        write(tmp_path, seconds)
        run.process_all_available()

    def folders() -> set[str]:
        return {path.parent.name for path in Path(checkpoint, "outer").glob("*/query.json")}

    write(tmp_path, [0, 1])
    engine = clash.Engine(spark, checkpoint, workers=2, epoch=1)
    declare(engine, spark, tmp_path)
    engine.query("plain", f"SELECT R.a, S.b, T.y {JOINED}")
    run = engine.start()
    try:
        run.process_all_available()
        first = run.add_query("counted", f"SELECT count(*) AS n {JOINED}")
        with pytest.raises(clash.OptionError, match="mode needs aggregates"):
            run.add_query("joined", f"SELECT R.a {JOINED}", mode="update")
        deliver(2, 3)
        assert first.batch is not None
        assert folders() == {"counted"}
        later = run.results("plain").count() - run.results("counted").toArrow().to_pylist()[0]["n"]
        assert later > 0, "it has no results of batches before it was added"
        run.replace_query("counted", f"SELECT count(*) AS n, max(T.y) AS y {JOINED}", mode="update")
        before = run.results("plain").count()
        deliver(4, 5)
        deliver(6, 7)
        assert len(folders()) == 1
        assert folders() != {"counted"}
        updates = run.results("counted").toArrow().to_pylist()
        assert max(updates, key=lambda row: row["_batch"])["n"] == run.results("plain").count() - before
        assert "OUTER QUERIES" in run.explain()
        run.remove_query("counted")
        deliver(8, 9)
        run.process_all_available()
        assert folders() == set()
        assert not list(Path(checkpoint, "clash", "outer").rglob("*.parquet"))
        assert run.results("counted").count() == len(updates)

        def broken(df: Any, batch: int) -> None:
            raise ValueError("no room")

        run.add_query("broken", f"SELECT count(*) AS n {JOINED}", sink=clash.sinks.ForeachBatch(broken))
        write(tmp_path, [10, 11])
        with pytest.raises(clash.ClashError, match=r"(?s)the sink of query broken failed.*no room"):
            run.await_termination(120)
    finally:
        run.stop()


REFUSED = [
    (f"SELECT count(*) {JOINED}", {"mode": "append"}, "needs a window of event time"),
    (f"SELECT R.ts, count(*) {JOINED} GROUP BY R.ts", {"mode": "append"}, "stream U has no lateness"),
    (f"SELECT count(*) {JOINED}", {"mode": "often"}, "not an output mode"),
    (f"SELECT max(n) FROM (SELECT count(*) AS n {JOINED} GROUP BY R.a)", {"mode": "update"}, "need all groups"),
    (f"SELECT n FROM (SELECT count(*) AS n {JOINED} GROUP BY R.a) ORDER BY n", {}, "ORDER BY is not supported"),
    (f"SELECT nope FROM (SELECT count(*) AS n {JOINED} GROUP BY R.a)", {}, "(?s)Spark refuses.*nope"),
    (f"SELECT R.a {JOINED}", {"mode": "complete"}, "mode needs aggregates"),
    (f"SELECT count(*) {JOINED}", {"sink": clash.sinks.Parquet("out")}, "cannot be replaced with every batch"),
    (f"SELECT count(*) {JOINED}", {"sink": clash.sinks.Kafka("t", servers="h:9092")}, "takes results of joins only"),
    (f"SELECT count(DISTINCT R.a) {JOINED}", {}, "(?s)Spark refuses.*[Dd]istinct aggregations"),
    (f"SELECT R.a, count(*) {JOINED} GROUP BY S.b", {}, "(?s)Spark refuses.*MISSING_AGGREGATION|GROUP BY"),
    (f"SELECT no_function(R.a), count(*) {JOINED} GROUP BY R.a", {}, "(?s)Spark refuses.*no_function"),
    (f"SELECT count(*) AS n, max(R.a) AS N {JOINED}", {}, "two outputs are called n"),
]


@pytest.mark.parametrize(("text", "options", "message"), REFUSED)
def test_what_is_refused(spark: Any, tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    write(tmp_path, [0])
    engine = clash.Engine(spark, str(tmp_path / "checkpoint"))
    declare(engine, spark, tmp_path)
    if "lateness" in message:
        engine.stream("U", spark.readStream.schema("a bigint, ts timestamp").parquet(str(tmp_path / "R")), time="ts", window="1 second")
        text = "SELECT R.ts, count(*) FROM R JOIN U ON R.a = U.a GROUP BY R.ts"
    with pytest.raises(clash.ClashError, match=message):
        engine.query("q", text, **options)
