"""Queries whose results go to PostgreSQL: once each, also after a restart and for a query that is added at run time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from tests.servers import PostgresServer

import clash
from clash.sinks import Postgres

TEXT = "SELECT R.a, R.x, S.y FROM R JOIN S ON R.a = S.a"


def write(root: Path, at: int) -> None:
    for stream, column, values in (("R", "x", [f"x{row}-{at}" for row in range(30)]), ("S", "y", list(range(30)))):
        (root / stream).mkdir(exist_ok=True)
        pq.write_table(pa.table({"a": [(row * 7 + at) % 25 for row in range(30)], column: values}), root / stream / f"{at}.parquet")


def test_results_are_there_once(spark: Any, postgres_server: PostgresServer, tmp_path: Path) -> None:
    name = f"t{uuid4().hex[:12]}"

    def engine() -> clash.Engine:
        made = clash.Engine(spark, tmp_path / "ck", workers=2, epoch=1)
        source = spark.readStream.option("maxFilesPerTrigger", 1)
        made.stream("R", source.schema("a bigint, x string").parquet(str(tmp_path / "R")))
        made.stream("S", source.schema("a bigint, y bigint").parquet(str(tmp_path / "S")), keep="all")
        made.query("q", TEXT, sink=Postgres(name, dsn=postgres_server.dsn, create=True))
        return made

    write(tmp_path, 0)
    run = engine().start()
    try:
        run.process_all_available()
        run.add_query("late", TEXT, sink=Postgres(f"{name}_late", dsn=postgres_server.dsn, create=True), history=False)
        write(tmp_path, 1)
        run.process_all_available()
    finally:
        run.stop()
    write(tmp_path, 2)
    assert engine().start(available_now=True).await_termination(60)
    with duckdb.connect() as connection:
        for stream in "RS":
            connection.execute(f"CREATE VIEW {stream} AS SELECT * FROM read_parquet('{tmp_path}/{stream}/*.parquet', filename=true)")
        expected = Counter(connection.sql(TEXT).fetchall())
        late = Counter(connection.sql(f"{TEXT} WHERE R.filename NOT LIKE '%/0.parquet' AND S.filename NOT LIKE '%/0.parquet'").fetchall())
    assert Counter(postgres_server.query(f"SELECT a, x, y FROM {name}")) == expected
    assert Counter(postgres_server.query(f"SELECT a, x, y FROM {name}_late")) == late
