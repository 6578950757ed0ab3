"""TPC-H as streams: no row is lost when the data is cut, and the queries mean the same to DuckDB. No time is asserted."""

from __future__ import annotations

import csv
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clash.cli.row_content import Content, file_content, table_content
from clash.errors import ClashError, OptionError
from clash.inprocess.engine import InProcessEngine
from clash.sql import parse_queries
from clash_bench import tpch, tpch_latency
from clash_bench.monitor import KINDS, Memory, Monitor
from clash_bench.spark_jobs import SparkJob, SparkTask
from clash_bench.tpch_data import Data, tpch_data
from clash_bench.tpch_duckdb import connect, measure_duckdb
from clash_bench.tpch_queries import QUERIES, TABLES, first_queries, key_columns, random_queries, table_rows, tpch_statistics, tpch_streams
from clash_bench.tpch_run import Job, RunResult
from clash_bench.tpch_sources import write_one_source
from clash_bench.waterfall import PARTS, WaterfallRow

SCALE, BATCHES = 0.01, 10


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tpch")


@pytest.fixture(scope="module")
def data(root: Path) -> Data:
    return tpch_data(SCALE, BATCHES, root)


def test_cut_into_batches(data: Data) -> None:
    expected = table_rows(SCALE)
    assert {table: rows for table, rows in data.rows.items() if table != "lineitem"} == {
        table: rows for table, rows in expected.items() if table != "lineitem"
    }
    assert data.rows["lineitem"] == pytest.approx(expected["lineitem"], rel=0.01)
    for table, columns in TABLES.items():
        parts = [batch[table] for batch in map(data.batch, range(BATCHES)) if table in batch]
        assert len(parts) == len(data.files(table)) == min(BATCHES, data.rows[table])
        assert sum(part.num_rows for part in parts) == data.rows[table]
        sizes = {part.num_rows for part in parts}
        assert max(sizes) - min(sizes) <= 1
        assert parts[0].column_names == list(columns)
        keys = [column for column in columns if column in key_columns()]
        whole = pa.concat_tables(parts).select(keys)
        if table != "lineitem":
            assert whole.group_by(keys).aggregate([]).num_rows == data.rows[table]
        if data.rows[table] > BATCHES * 10:
            assert whole[keys[0]].to_pylist() != sorted(whole[keys[0]].to_pylist())


def test_files_are_read_in_the_order_of_their_times(data: Data) -> None:
    times = [file.stat().st_mtime for file in data.files("orders")]
    assert times == sorted(set(times))


def test_data_is_a_function_of_its_seed_and_kept(data: Data, tmp_path: Path) -> None:
    again, other = tpch_data(SCALE, BATCHES, tmp_path), tpch_data(SCALE, BATCHES, tmp_path, seed=2)
    assert again.batch(3) == data.batch(3) != other.batch(3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gitignore", "tpch-sf0.01-b10-s1", "tpch-sf0.01-b10-s2"]
    kept = again.files("part")[0]
    kept.unlink()
    assert not tpch_data(SCALE, BATCHES, tmp_path).files("part")[0].samefile(data.files("part")[0])
    assert not kept.exists()


def test_what_cannot_be_generated_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ClashError, match="could not be generated"):
        tpch_data(-1.0, 2, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".gitignore"]


def test_queries_are_those_of_the_paper() -> None:
    streams = {stream.name: stream for stream in tpch_streams(QUERIES)}
    parsed, used = parse_queries(QUERIES, streams)
    assert set(used) == set(TABLES)
    initials = {
        "R": "region",
        "N": "nation",
        "S": "supplier",
        "PS": "partsupp",
        "P": "part",
        "L": "lineitem",
        "O": "orders",
        "C": "customer",
    }
    expected = ["R N S PS", "N S PS P", "S PS P L", "S PS L O", "P PS L O", "N S PS L", "C O L", "C O L PS", "R N C O", "C O L P"]
    assert [{relation.stream for relation in query.join.relations} for query in parsed] == [
        {initials[letter] for letter in letters.split()} for letters in expected
    ]
    assert [len(query.join.classes) for query in parsed] == [3, 3, 2, 3, 3, 3, 2, 4, 3, 3]


def test_sets_of_queries() -> None:
    assert list(first_queries(5)) == ["q1", "q2", "q3", "q4", "q5"]
    assert [stream.name for stream in tpch_streams(first_queries(5))] == [name for name in TABLES if name != "customer"]
    assert first_queries(10) == QUERIES
    with pytest.raises(OptionError):
        first_queries(7)


def test_every_row_of_the_largest_table_is_a_result(data: Data, tmp_path: Path) -> None:
    measured = measure_duckdb(data, QUERIES, tmp_path)
    rows = {name: content.rows for name, content in measured.contents.items()}
    largest = {"q1": "partsupp", "q2": "partsupp", "q9": "orders"}
    assert rows == {name: data.rows[largest.get(name, "lineitem")] for name in QUERIES}
    assert measured.seconds > 0
    with connect(data) as connection:
        assert table_content(connection.sql(QUERIES["q1"]).to_arrow_table()) == measured.contents["q1"]


def test_content_is_of_rows_in_any_order_but_not_of_other_rows(tmp_path: Path) -> None:
    def content(rows: str) -> Content:
        with duckdb.connect() as connection:
            return table_content(connection.sql(f"FROM (VALUES {rows}) t(a, b)").to_arrow_table())

    assert content("(1, 2.50), (3, 4.00)") == content("(3, 4.00), (1, 2.50)")
    assert content("(1, 2.50), (3, 4.00)") != content("(1, 4.00), (3, 2.50)")
    assert content("(1, 2.50), (1, 2.50)") != content("(1, 2.50)")
    assert content("(1, 2.50)") == content("(1::SMALLINT, 2.50)")
    assert file_content(f"{tmp_path}/*.parquet") == Content(0, 0)


@pytest.mark.parametrize("seed", range(3))
def test_random_queries(data: Data, seed: int) -> None:
    queries = random_queries(seed, 8)
    assert queries == random_queries(seed, 8) != random_queries(seed + 1, 8)
    assert len(set(queries.values())) == 8
    parsed, _ = parse_queries(queries, {stream.name: stream for stream in tpch_streams(queries)})
    assert {len(query.join.relations) for query in parsed} <= {3, 4, 5}
    with connect(data) as connection:
        for query in parsed:
            rows = connection.execute(f"SELECT count(*) FROM ({query.text})").fetchone()[0]
            assert rows < 10 * data.rows["lineitem"]


def test_statistics_are_near_the_truth(data: Data) -> None:
    """Of every query that DuckDB ran: the planner expects as many results as there are."""
    from clash.planner.cardinalities import Sizes

    streams = {stream.name: stream for stream in tpch_streams(QUERIES)}
    sizes = Sizes(tpch_statistics(SCALE), streams)
    largest = {"q1": "partsupp", "q2": "partsupp", "q9": "orders"}
    for query in parse_queries(QUERIES, streams)[0]:
        assert sizes.rows(query.join) == pytest.approx(data.rows[largest.get(query.name, "lineitem")], rel=0.01)


def test_monitor_counts_children_that_have_ended() -> None:
    import subprocess
    import sys

    from pyspark import SparkContext

    with Monitor(period=0.02) as monitor:
        subprocess.run([sys.executable, "-c", "x = bytearray(50_000_000); sum(range(10_000_000))"], check=True)
    assert set(monitor.cpu) == set(monitor.peak) == set(KINDS)
    assert sum(monitor.cpu.values()) > 0.02
    assert monitor.peak["driver"].private > 30_000_000  # the child's, too: it is below no JVM
    if SparkContext._active_spark_context is None:  # of another test in this process
        assert monitor.peak["workers"].private == monitor.peak["jvm"].private == 0


def test_one_source_has_the_rows_of_all_streams(data: Data, tmp_path: Path) -> None:
    streams = tpch_streams(first_queries(5))
    write_one_source(data, streams, tmp_path / "one")
    files = sorted((tmp_path / "one").iterdir())
    assert [file.stat().st_mtime for file in files] == sorted({file.stat().st_mtime for file in files})
    assert len(files) == BATCHES
    for stream in streams:
        found = duckdb.sql(f"SELECT {', '.join(TABLES[stream.name])} FROM '{tmp_path}/one/*.parquet' WHERE stream = '{stream.name}'")
        assert table_content(found.to_arrow_table()) == file_content(f"{data.folder}/{stream.name}/*.parquet")
    third = pq.read_table(files[3])
    assert third.num_rows == sum(data.batch(3)[stream.name].num_rows for stream in streams if stream.name in data.batch(3))


class InProcessRuns:
    """Stands in for Spark: runs the same job on the in-process transport, and reports it in the same way."""

    def __init__(self, spoil: str | None = None) -> None:
        self.jobs: list[tuple[float, int, str]] = []
        self.spoil = spoil

    def __call__(self, spark: object, data: Data, job: Job, check: bool = True) -> RunResult:
        self.jobs.append((data.scale, data.batches, job.strategy))
        streams = tpch_streams(job.queries)
        made = InProcessEngine(streams, job.queries, workers=job.workers, strategy=job.strategy, statistics=job.statistics)
        progress = []
        for number in range(data.batches if check else 2):
            done = made.batch({stream.name: batch for stream in streams if (batch := data.batch(number).get(stream.name)) is not None})
            entry = {
                "batch": number, "timestamp": "1970-01-01T00:00:00.020+00:00",
                "input": done.input, "seconds": done.seconds, "stores": done.stores,
                "durationMs": {"triggerExecution": 500 + number},
            }  # fmt: skip
            progress.append(entry)
        contents = {name: table_content(made.results(name).slice(int(name == self.spoil))) for name in job.queries} if check else {}
        return RunResult(2.0, progress, dict.fromkeys(KINDS, 1.0), dict.fromkeys(KINDS, Memory(2_000_000, 1, 1)), 0.5, contents)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, root: Path, tmp_path: Path) -> Callable[..., InProcessRuns]:
    def run(spoil: str | None = None, **options: Any) -> InProcessRuns:
        runs = InProcessRuns(spoil)
        monkeypatch.setattr(tpch, "session", nullcontext)
        monkeypatch.setattr(tpch, "run_once", runs)
        monkeypatch.setattr(tpch, "LATENCY_BATCHES", 4)
        monkeypatch.setattr(tpch_latency, "run_once", runs)
        monkeypatch.setattr(tpch_latency, "run_floor", lambda *_: [{"triggerExecution": 100 + number} for number in range(4)])
        monkeypatch.setattr(tpch_latency, "last_job", lambda _: -1)
        monkeypatch.setattr(tpch_latency, "jobs_after", lambda *_: [SparkJob(3, 0, 9, ((SparkTask(1, 8, 5),) * 4,))])
        defaults = {
            "queries": 5, "random": 0, "scale": 0.002, "batches": 2, "strategy": "global", "workers": 2, "repeat": 1,
            "latency": False, "growth": False, "state": False, "data": root, "out": tmp_path,
        }  # fmt: skip
        tpch.run(**(defaults | options))  # type: ignore[arg-type]
        return runs

    return run


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_throughput(bench: Callable[..., InProcessRuns], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(repeat=2).jobs == [(0.01, 20, "global"), (0.002, 2, "global"), (0.002, 2, "global")]
    lines = read(tmp_path / "tpch.csv")
    assert list(lines[0]) == [field.name for field in fields(tpch.RunRow)]
    assert [line["run"] for line in lines] == ["1", "2"]
    line = lines[0]
    assert line["equal"] == "True"
    assert sum(int(part.partition(":")[2]) for part in line["counts"].split()) == int(line["results"]) > 0
    assert float(line["tuples_per_second"]) == int(line["tuples"]) / 2.0
    assert float(line["ratio"]) == pytest.approx(2.0 / float(line["duckdb_seconds"]), rel=1e-4)
    assert (line["cpu_seconds"], line["memory_jvm"], line["batch_seconds"]) == ("3", "2", "1.001")
    assert all(float(line[part]) > 0 for part in ("ingest", "store", "probe", "sink", "state_bytes", "state_rows"))
    shown = capsys.readouterr().out
    assert "counts and contents equal DuckDB's" in shown
    assert f"{int(line['tuples']):,} tuples in 2 batches" in shown


def test_a_run_with_wrong_results_is_refused(bench: Callable[..., InProcessRuns], tmp_path: Path) -> None:
    with pytest.raises(ClashError, match="differ from DuckDB"):
        bench(spoil="q4")
    assert not (tmp_path / "tpch.csv").exists()
    assert read(tmp_path / "tpch-wrong.csv")[0]["equal"] == "False"


def test_state_growth_and_latency(bench: Callable[..., InProcessRuns], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpch, "GROWTH", 2)
    runs = bench(random=1, queries=2, state=True, growth=True, latency=True)
    assert [job for job in runs.jobs if job[0] != 0.01] == [
        (0.002, 2, "global"), (0.004, 4, "global"), *[(0.002, 2, strategy) for strategy in ("independent", "shared", "global")],
    ]  # fmt: skip
    assert [line["scale"] for line in read(tmp_path / "tpch-growth.csv")] == ["0.002", "0.004"]
    assert [line["strategy"] for line in read(tmp_path / "tpch-state.csv")] == ["independent", "shared", "global"]
    assert len(read(tmp_path / "tpch-latency.csv")) == 4
    assert not (tmp_path / "tpch.csv").exists()


def test_latency(bench: Callable[..., InProcessRuns], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(latency=True, repeat=2).jobs == [(0.01, 20, "global"), *[(0.01, 4, "global")] * 4]
    lines = read(tmp_path / "tpch-latency.csv")
    assert list(lines[0]) == [field.name for field in fields(tpch_latency.LatencyRow)]
    expected = [(run, sources, what) for run in "12" for sources in ("several", "one") for what in ("floor", "clash")]
    assert [(line["run"], line["sources"], line["what"]) for line in lines] == expected
    floor, ours = lines[:2]
    assert (floor["trigger"], floor["floor_ratio"], floor["equal"], floor["results"]) == ("101.5", "1", "", "")
    assert (ours["trigger"], ours["equal"], ours["batches"], ours["spark_tasks"]) == ("501.5", "True", "4", "1")
    assert float(ours["floor_ratio"]) == pytest.approx(501.5 / 101.5, rel=1e-4)
    parts = read(tmp_path / "tpch-waterfall.csv")
    assert list(parts[0]) == [field.name for field in fields(WaterfallRow)]
    assert len(parts) == 4 * len(PARTS)
    assert sum(float(part["milliseconds"]) for part in parts[: len(PARTS)]) == pytest.approx(501.5)
    assert (tmp_path / "tpch-waterfall.png").read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr().out
    assert "counts and contents equal DuckDB's" in shown
    assert "501.5" in shown


def test_latency_of_wrong_results_is_refused(bench: Callable[..., InProcessRuns], tmp_path: Path) -> None:
    with pytest.raises(ClashError, match="differ from DuckDB"):
        bench(spoil="q4", latency=True)
    assert read(tmp_path / "tpch-latency.csv")[1]["equal"] == "False"
    assert not (tmp_path / "tpch-waterfall.csv").exists()
