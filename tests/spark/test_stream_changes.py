"""Streams that are declared otherwise after a restart, over the same files, against DuckDB."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clash

from .files import counted, table

PAIRS = "SELECT R.a, R.x, S.b FROM R JOIN S ON R.a = S.a"
ZED = "SELECT R.x, R.z, S.b FROM R JOIN S ON R.a = S.a"
CHANGED = 3  # the first batch of the second program


def _deliver(root: Path, seconds: range) -> None:
    """A file of each stream per second of event time, and of batches: those of R have one column more from second 4 on."""
    for second in seconds:
        for stream in "RS":
            rows = table(stream, second)
            if stream == "R" and second > CHANGED:
                rows = rows.append_column("z", pa.array([f"z{n % 3}" for n in range(rows.num_rows)]))
            file = root / stream / f"{second:03d}.parquet"
            file.parent.mkdir(exist_ok=True)
            pq.write_table(rows, file)
            os.utime(file, (1_000_000 + second, 1_000_000 + second))


def _engine(spark: Any, root: Path, more: str, window: str, scanned: bool) -> Any:
    engine = clash.Engine(spark, str(root / "checkpoint"), workers=2, epoch=1)
    for stream, columns in (("R", f"a bigint, x bigint{more}"), ("S", "a bigint, b bigint")):
        df = spark.readStream.schema(f"{columns}, ts timestamp").option("maxFilesPerTrigger", 1).parquet(str(root / stream))
        df = df.selectExpr("*", "1 AS one") if scanned else df
        engine.stream(stream, df, time="ts", window=window if stream == "S" else "500 milliseconds", lateness="1 second")
    return engine


def _expected(root: Path, text: str, window: int, batches: range, schema: pa.Schema, first_r: int = 0) -> Counter[str]:
    """The results whose last row is of one of the batches; `first_r`: rows of R from before it are not there."""
    with duckdb.connect() as connection:
        for stream in "RS":
            files = sorted((root / stream).iterdir())
            rows = [pq.read_table(file).append_column("batch", pa.array([n] * 120)) for n, file in enumerate(files)]
            connection.register(stream, pa.concat_tables(rows, promote_options="default"))
        condition = f"""greatest(R.batch, S.batch) BETWEEN {batches[0]} AND {batches[-1]} AND R.batch >= {first_r}
            AND epoch_us(R.ts) - epoch_us(S.ts) <= {window} AND epoch_us(S.ts) - epoch_us(R.ts) <= 500000"""
        return counted(connection.sql(f"{text} WHERE {condition}").to_arrow_table().cast(schema))


@pytest.mark.parametrize("scanned", [False, True], ids=["plain files", "scanned by Spark"])
def test_another_column_and_a_longer_window_over_the_same_files(spark: Any, tmp_path: Path, scanned: bool) -> None:
    _deliver(tmp_path, range(CHANGED))
    engine = _engine(spark, tmp_path, "", "500 milliseconds", scanned)
    engine.query("q", PAIRS)
    engine.start(available_now=True).await_termination()

    _deliver(tmp_path, range(CHANGED, 9))
    engine = _engine(spark, tmp_path, ", z string", "3 seconds", scanned)
    engine.query("q", PAIRS)
    engine.query("p", ZED)
    run = engine.start(available_now=True)
    run.await_termination()

    reasons = [generation["reason"] for generation in run.generations]
    assert "column R.z added" in reasons[1]
    assert "window of stream S '500 milliseconds' → '3 seconds'" in reasons[1]
    complete = run.complete_from
    assert complete["q"] is not None
    assert CHANGED <= complete["q"] < 8
    assert complete["p"] is not None
    found = run.results("q").toArrow()
    before = _expected(tmp_path, PAIRS, 500_000, range(CHANGED), found.schema)
    every = before + _expected(tmp_path, PAIRS, 3_000_000, range(CHANGED, 9), found.schema)
    needed = before + _expected(tmp_path, PAIRS, 3_000_000, range(complete["q"], 9), found.schema)
    assert not counted(found) - every
    assert not needed - counted(found)
    zed = run.results("p").toArrow()
    every = _expected(tmp_path, ZED, 3_000_000, range(CHANGED, 9), zed.schema, CHANGED)
    needed = _expected(tmp_path, ZED, 3_000_000, range(complete["p"], 9), zed.schema, CHANGED)
    assert not counted(zed) - every
    assert not needed - counted(zed)
    assert {None, "z0", "z1", "z2"} == {row["z"] for row in zed.to_pylist()}  # a file that lacks the column has NULL


def test_options_of_a_stream_change_at_run_time(spark: Any, tmp_path: Path) -> None:
    _deliver(tmp_path, range(2))
    engine = _engine(spark, tmp_path, "", "500 milliseconds", False)
    engine.query("q", PAIRS)
    run = engine.start()
    try:
        run.process_all_available()
        change = run.change_stream("S", window="2 seconds")
        with pytest.raises(clash.OptionError, match="there is a stream of that name already") as error:
            run.stream("S", engine._frames["S"])
        assert "run.change_stream" in str(error.value.hint)
        _deliver(tmp_path, range(2, 3))
        run.process_all_available()
        assert change.batch is not None
        found = run.results("q").toArrow()
        assert len(counted(found)) > len(_expected(tmp_path, PAIRS, 500_000, range(3), found.schema))
    finally:
        run.stop()
    run = engine.start()  # the program has not changed: what the call changed stays
    run.stop()
    assert run._coordinator.generation.setup.streams_by_name["S"].window == 2_000_000
