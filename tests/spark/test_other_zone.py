"""In a session of another time zone than UTC: computed columns, projections, aggregates and a reference table; and what is only Spark's:
session windows, elements of maps, and a registered function as a key and in a filter. All of it in one run, against Spark's batch."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import clash

ZONE = "America/New_York"  # which changed its clock on 10 March and on 3 November 2024
MOMENTS = (datetime(2024, 3, 10, 6, 30, tzinfo=UTC), datetime(2024, 11, 3, 4, 45, tzinfo=UTC))
SCHEMA = "id bigint, a bigint, x string, ts timestamp, m map<string,bigint>"
JOINED = "FROM R JOIN S ON R.a = S.a"
QUERIES = {
    "computed": f"SELECT R.id, hour(R.ts) AS h, S.id AS s {JOINED} WHERE date_format(R.ts, 'HH') < '02'",
    "projected": f"""SELECT R.id, S.id AS s, date_format(greatest(R.ts, S.ts), 'EEE HH:mm') AS t
                     {JOINED} WHERE R.ts <= S.ts + INTERVAL 1 DAY""",
    "days": f"""SELECT date_trunc('day', R.ts) AS day, count(*) AS n, max(date_format(S.ts, 'HH:mm')) AS t
                {JOINED} GROUP BY date_trunc('day', R.ts)""",
    "sessions": f"""SELECT session_window(R.ts, '5 minutes').start AS at, S.a, count(*) AS n
                    {JOINED} GROUP BY session_window(R.ts, '5 minutes'), S.a""",  # Spark wants a key beside the window
    "windows": f"SELECT window(R.ts, '1 day').start AS at, count(*) AS n {JOINED} GROUP BY window(R.ts, '1 day')",
    "elements": "SELECT R.id, R.m['p'] AS p, element_at(S.m, 'q') AS q FROM R JOIN S ON R.m['p'] = S.m['q'] WHERE R.m['q'] < 4",
    "function": "SELECT R.id, S.id AS s FROM R JOIN S ON bucket(R.id) = S.a WHERE bucket(S.id) > 2",
    "table": """SELECT R.id, N.name, date_trunc('day', N.since) AS d, CAST(R.ts AS date) AS e
                FROM R JOIN N ON R.a = N.k WHERE date_format(N.since, 'HH') <> '01' AND R.ts > N.since""",
}
SINCE = "TIMESTAMP '2024-03-10 00:30:00' + id * INTERVAL '30' MINUTE AS since"


def write(root: Path) -> None:
    random = Random(11)
    kinds = {"id": pa.int64(), "a": pa.int64(), "x": pa.string(), "ts": pa.timestamp("us", "UTC"), "m": pa.map_(pa.string(), pa.int64())}
    for stream in "RS":
        (root / stream).mkdir(parents=True)
        for file in range(2):
            rows = [
                {
                    "id": file * 30 + at,
                    "a": random.randrange(6),
                    "x": random.choice(["a", "b", None]),
                    "ts": random.choice(MOMENTS) + timedelta(minutes=random.randrange(240)),
                    "m": [(key, random.randrange(6)) for key in "pq" if random.random() < 0.8],
                }
                for at in range(30)
            ]
            pq.write_table(pa.Table.from_pylist(rows, pa.schema(kinds)), root / stream / f"{file}.parquet")


def answer(frame: Any) -> Counter[str]:
    return Counter(map(str, frame.collect()))


def test_everything_of_sparks_in_another_zone(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", ZONE)
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.udf.register("bucket", lambda value: value % 5, "bigint")
    write(tmp_path)
    nations = session.range(6).selectExpr("id AS k", "concat('n', id) AS name", SINCE)
    nations.createOrReplaceTempView("N")
    engine = clash.Engine(session, checkpoint, workers=2)
    for stream in "RS":
        folder = str(tmp_path / stream)
        engine.stream(stream, session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(folder), time="ts")
        session.read.schema(SCHEMA).parquet(folder).createOrReplaceTempView(stream)
    engine.table("N", nations)
    for name, text in QUERIES.items():
        engine.query(name, text)
    run = engine.start(available_now=True)
    assert run.await_termination(300)
    for name, text in QUERIES.items():
        expected = answer(session.sql(text))
        assert expected, name
        assert answer(run.results(name)) == expected, name
    text = run.explain()
    assert "COMPUTED by Spark, which reads all streams of files" in text
    assert "COMPUTED by Spark of joined rows" in text
