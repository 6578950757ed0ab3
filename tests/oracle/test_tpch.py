"""The ten TPC-H queries on the in-process transport give what DuckDB gives, whatever the strategy and the number of workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clash.cli.row_content import Content, table_content
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash_bench.tpch_data import Data, tpch_data
from clash_bench.tpch_duckdb import connect
from clash_bench.tpch_queries import FIXED, QUERIES, random_queries, tpch_statistics, tpch_streams

SCALE = 0.01


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return tpch_data(SCALE, 3, tmp_path_factory.mktemp("tpch"))


@pytest.fixture(scope="module")
def ten(data: Data) -> dict[str, Content]:
    return expected(data, QUERIES)


def expected(data: Data, queries: dict[str, str]) -> dict[str, Content]:
    with connect(data) as connection:
        return {name: table_content(connection.sql(text).to_arrow_table()) for name, text in queries.items()}


def found(data: Data, queries: dict[str, str], folder: Path, **options: Any) -> dict[str, Content]:
    job = InProcessEngine(tpch_streams(queries), queries, uri=str(folder / "checkpoint"), **options)
    for number in range(data.batches):
        job.batch({name: table for name, table in data.batch(number).items() if name in {stream.name for stream in job.job.streams}})
    return {name: table_content(job.results(name)) for name in queries}


@pytest.mark.parametrize(("strategy", "workers"), [("global", 1), ("global", 5), ("shared", 3), ("independent", 2)])
def test_ten_queries(data: Data, ten: dict[str, Content], tmp_path: Path, strategy: str, workers: int) -> None:
    options = {"strategy": strategy, "workers": workers, "statistics": tpch_statistics(SCALE)}
    assert found(data, QUERIES, tmp_path, **options) == ten


@pytest.mark.parametrize(("strategy", "workers"), [("global", 3), ("independent", 1)])
def test_region_and_nation_as_tables(data: Data, ten: dict[str, Content], tmp_path: Path, strategy: str, workers: int) -> None:
    """They are there from the start, so that the results at the end are those of the whole data."""
    tables = {name: pa.concat_tables([pq.read_table(file) for file in data.files(name)]) for name in FIXED}
    streams = [Stream.table(s.name, dict(s.columns)) if s.name in tables else s for s in tpch_streams(QUERIES)]
    options = {"strategy": strategy, "workers": workers, "statistics": tpch_statistics(SCALE), "tables": tables}
    job = InProcessEngine(streams, QUERIES, uri=str(tmp_path / "checkpoint"), **options)  # type: ignore[arg-type]
    for number in range(data.batches):
        if number == 1:
            job.refresh("nation", tables["nation"].slice(1).combine_chunks())  # one is gone for a moment, and back before a batch
            job.refresh("nation", tables["nation"])
        job.batch({name: rows for name, rows in data.batch(number).items() if name not in tables})
    assert {name: table_content(job.results(name)) for name in QUERIES} == ten
    stores = job.coordinator.generation.topology.stores
    assert {store.stream for store in stores if store.join is None} >= set(FIXED)
    assert not any(relation.stream in FIXED for store in stores if store.join is not None for relation in store.join.relations)


def test_random_queries(data: Data, tmp_path: Path) -> None:
    queries = random_queries(seed=3, count=4)
    assert found(data, queries, tmp_path, workers=3) == expected(data, queries)
