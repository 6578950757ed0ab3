"""The data of the adaptive experiments, the latencies, and that plots are written; nothing here runs Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clash.errors import ClashError
from clash_bench.adaptive import CostRow, LatencyRow, latency_change, summarize, with_ratios
from clash_bench.adaptive_data import COLUMNS, SelectivityChange, StoreIntroduced, Timing
from clash_bench.adaptive_feed import TICK, Columns, due_times, write_all
from clash_bench.adaptive_latency import assign_files, commit_times, result_latencies, tuple_latencies
from clash_bench.adaptive_paper import ARMS, LATENCY
from clash_bench.adaptive_plot import draw_latencies, median_of_runs
from clash_bench.changes import ChangesRun, QueryRow, SecondRow, spread
from clash_bench.changes_data import BASE, QUERIES, ShopScript
from clash_bench.changes_plot import draw_changes

TIMING = Timing(lead=1.0, change=5.0, seconds=10.0)
EVEN = SelectivityChange(200, partners=10, timing=TIMING)
FAST = StoreIntroduced(1000, 40, fan=4, crowd=4, timing=Timing(lead=0.0, change=10.0, seconds=20.0))


def stream(script: SelectivityChange | StoreIntroduced, name: str, first: float, last: float) -> Columns:
    """The rows of a stream from one second to another."""
    parts = [script.rows(tick)[name] for tick in range(round(first / TICK), round(last / TICK))]
    return {column: np.concatenate([part[column] for part in parts]) for column in COLUMNS[name]}


def joined(script: SelectivityChange | StoreIntroduced, first: float, last: float, sql: str) -> int:
    with duckdb.connect() as connection:
        for name in COLUMNS:
            connection.register(name, pa.table(dict(stream(script, name, first, last))))
        row = connection.execute(f"SELECT count(*) FROM {sql}").fetchone()
    return 0 if row is None else int(row[0])


def test_before_the_change_each_tuple_is_part_of_one_result() -> None:
    assert joined(EVEN, 0, 6, "R JOIN S USING (a) JOIN T USING (b) JOIN U USING (c)") == 6 * 200
    assert joined(EVEN, 0, 6, "R JOIN S USING (a)") == 6 * 200


def test_partners_come_within_a_second() -> None:
    assert joined(EVEN, 2, 3, "R JOIN S USING (a) JOIN T USING (b) JOIN U USING (c)") == 200


def test_after_the_change_many_partners_lead_to_no_result() -> None:
    assert joined(EVEN, 6, 11, "R JOIN S USING (a)") == 10 * 5 * 200
    assert joined(EVEN, 6, 11, "T JOIN U USING (c)") == 10 * 5 * 200
    assert joined(EVEN, 0, 11, "(SELECT b FROM S OFFSET 1200) JOIN T USING (b)") == 0


def test_a_script_is_deterministic() -> None:
    for script in (EVEN, FAST, ShopScript(50, 2.0)):
        for first, second in zip(script.rows(3).values(), script.rows(3).values(), strict=True):
            assert all((first[column] == second[column]).all() for column in first)


def test_the_large_intermediate_result_has_the_size_that_the_statistics_state() -> None:
    stated = FAST.statistics().sizes
    sizes = {
        ("R", "S"): joined(FAST, 0, 5, "R JOIN S USING (a)"),
        ("S", "T"): joined(FAST, 0, 5, "S JOIN T USING (b)"),
        ("T", "U"): joined(FAST, 0, 5, "T JOIN U USING (c)"),
        ("S", "T", "U"): joined(FAST, 0, 5, "S JOIN T USING (b) JOIN U USING (c)"),
        ("R", "S", "T"): joined(FAST, 0, 5, "R JOIN S USING (a) JOIN T USING (b)"),
    }
    assert {key: size for key, size in sizes.items() if not 0.7 < size / stated[key] < 1.4} == {}


def test_after_the_change_it_is_small() -> None:
    assert joined(FAST, 10, 15, "S JOIN T USING (b) JOIN U USING (c)") < FAST.statistics().sizes["S", "T", "U"] / 100
    assert joined(FAST, 10, 15, "R JOIN S USING (a)") == pytest.approx(FAST.statistics().sizes["R", "S"], rel=0.3)


def test_files_are_written_in_order_and_hold_what_is_due(tmp_path: Path) -> None:
    script = replace(EVEN, timing=Timing(lead=0.0, seconds=0.6))
    write_all(script, tmp_path, 1000.0)
    files = sorted((tmp_path / "S").glob("*.parquet"))
    assert [file.name for file in files] == ["000000.parquet", "000001.parquet", "000002.parquet"]
    assert [file.stat().st_mtime for file in files] == [1000, 1001, 1002]
    table = pq.read_table(files[1])
    assert table.column_names == ["a", "b", "ts"]
    assert table.column("ts").to_numpy().astype("int64")[0] == pytest.approx(1000.2e6, abs=5_000)


def entry(batch: int, second: float, **rows: int) -> dict[str, Any]:
    return {"batch": batch, "timestamp": datetime.fromtimestamp(1000 + second, UTC).isoformat(), "input": rows}


FOUR = replace(EVEN, timing=Timing(lead=0.0, seconds=0.8))  # four files of 40 rows per stream


def test_files_are_assigned_to_batches_by_their_rows() -> None:
    files = assign_files(FOUR, [entry(0, 0.5, R=40, S=80), entry(1, 0.9, R=80, S=40, T=160)])
    assert files["R"].batches == [0, 1, 1, -1]
    assert files["S"].batches == [0, 0, 1, -1]
    assert files["T"].batches == [1, 1, 1, 1]
    assert files["U"].batches == [-1] * 4


def test_a_batch_that_ends_within_a_file_is_an_error() -> None:
    with pytest.raises(ClashError, match="within a file"):
        assign_files(FOUR, [entry(0, 0.5, R=41)])


def test_latency_is_from_due_to_commit_or_to_the_end() -> None:
    progress = [entry(0, 0.5, R=40), entry(1, 1.5, R=40)]
    tuples = tuple_latencies({"R": assign_files(FOUR, progress)["R"]}, commit_times(progress), 1000.0, 1003.0)
    assert tuples.latency[:40] == pytest.approx(0.5 - due_times(0, 40))
    assert tuples.latency[40:80] == pytest.approx(1.5 - due_times(1, 40))
    assert tuples.latency[80:] == pytest.approx(3.0 - tuples.due[80:])
    assert Counter(tuples.open.tolist()) == {False: 80, True: 80}
    assert tuples.of_second(1).quantile(0.5) is None


def test_latency_of_results_counts_from_their_last_part(tmp_path: Path) -> None:
    times = pa.array([1000_100_000, 1000_300_000], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"r": times, "s": times[::-1]}), tmp_path / "part-000000007-x-0.parquet")
    results = result_latencies(tmp_path, ("r", "s"), {7: 1000.5}, 1000.0)
    assert results.due == pytest.approx([0.3, 0.3])
    assert results.latency == pytest.approx([0.2, 0.2])
    assert len(result_latencies(tmp_path / "none", ("r",), {}, 0.0).due) == 0


def test_amounts_of_batches_are_distributed_over_their_time() -> None:
    assert spread(np.array([1.0, 3.0]), [10, 40], 4).tolist() == [10, 20, 20, 0]


def test_costs_are_compared_by_round() -> None:
    static = CostRow(1, "static", 100, 1, 1.0, 2.0, 0.5, 0.5, 1.0, 100.0, None, None, 0.0)
    other = replace(static, arm="adaptive", tuples_per_second=98.0, seconds=1.02, cpu_seconds=2.1)
    lines = with_ratios([other, static, replace(static, seconds=1.02), replace(other, seconds=1.06)])
    assert [line.ratio for line in lines] == pytest.approx([2.02 / 2.08] * 4)
    assert "2.0 % less; median of the rounds 2.9 % less, with 5.0 % more CPU" in summarize(lines)


def test_the_twenty_queries_differ_and_return_the_numbers_of_their_parts() -> None:
    texts = [query.text for query in (*QUERIES, BASE)]
    assert len(set(texts)) == 21
    assert QUERIES[0].text == "SELECT o.id AS n_o, p.id AS n_p FROM orders o, payments p WHERE o.id = p.order_id"
    assert sum(not query.history for query in QUERIES) == 5


@pytest.mark.parametrize("name", ["selectivity", "store"])
def test_plots_are_written(tmp_path: Path, name: str) -> None:
    script = SelectivityChange(100) if name == "selectivity" else StoreIntroduced(100, 10)
    lines = [
        LatencyRow(name, arm, run, "R 100/s", at, 10, int(at > 25), 300.0 + at * run, 500.0 + at, 600.0, 0, None, None, 0)
        for arm in ARMS
        for run in (1, 2, 3)
        for at in range(30)
    ]
    draw_latencies(name, lines, [-1.0, 18.0], script, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000
    assert [line.p50 for line in median_of_runs(lines, "static")][:3] == [300.0, 302.0, 304.0]
    assert latency_change(lines, "adaptive", 2, script.timing) == "314 → 354 ms (+13 %)"


def test_the_plot_of_changes_is_written(tmp_path: Path) -> None:
    query = QueryRow("q01", "SELECT", True, 2.0, 6.0, 3.5, 4, 4, 9, 10, 0, 0, True)
    seconds = [SecondRow(at, 1 + (3 <= at < 7), 100, 100.0, 20.0, 300.0, None if at == 9 else 500.0, 0) for at in range(10)]
    draw_changes(ChangesRun([query], seconds, 0.0), 25, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_the_paper_plots_thirty_seconds_and_fewer_of_the_failed_run() -> None:
    assert len(LATENCY["selectivity", "adaptive"]) == 30
    assert max(LATENCY["selectivity", "static"]) == 20
