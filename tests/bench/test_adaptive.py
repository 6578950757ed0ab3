"""The data of the adaptive experiments, the bookkeeping of latencies, and that plots are written; nothing here runs Spark."""

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

from clash.bench.adaptive import Cost, Second, compared, fall, summary
from clash.bench.adaptive_data import COLUMNS, Selectivity, Small, Timing
from clash.bench.adaptive_feed import TICK, Columns, due, write_all
from clash.bench.adaptive_latency import commits, of_results, of_tuples, taken
from clash.bench.adaptive_paper import ARMS, LATENCY
from clash.bench.adaptive_plot import draw_latencies, middle
from clash.bench.changes import Asked, Ran, spread
from clash.bench.changes import Second as Moment
from clash.bench.changes_data import BASE, QUESTIONS, Shop
from clash.bench.changes_plot import draw_changes
from clash.errors import ClashError

TIMING = Timing(lead=1.0, change=5.0, seconds=10.0)
EVEN = Selectivity(200, partners=10, timing=TIMING)
FAST = Small(1000, 40, fan=4, crowd=4, timing=Timing(lead=0.0, change=10.0, seconds=20.0))


def stream(script: Selectivity | Small, name: str, first: float, last: float) -> Columns:
    """What a stream has from one second to another."""
    parts = [script.rows(tick)[name] for tick in range(round(first / TICK), round(last / TICK))]
    return {column: np.concatenate([part[column] for part in parts]) for column in COLUMNS[name]}


def joined(script: Selectivity | Small, first: float, last: float, sql: str) -> int:
    with duckdb.connect() as connection:
        for name in COLUMNS:
            connection.register(name, pa.table(dict(stream(script, name, first, last))))
        found = connection.execute(f"SELECT count(*) FROM {sql}").fetchone()
    return 0 if found is None else int(found[0])


def test_before_the_change_each_tuple_is_part_of_one_result() -> None:
    assert joined(EVEN, 0, 6, "R JOIN S USING (a) JOIN T USING (b) JOIN U USING (c)") == 6 * 200
    assert joined(EVEN, 0, 6, "R JOIN S USING (a)") == 6 * 200


def test_partners_come_within_a_second() -> None:
    assert joined(EVEN, 2, 3, "R JOIN S USING (a) JOIN T USING (b) JOIN U USING (c)") == 200


def test_after_the_change_many_partners_lead_nowhere() -> None:
    assert joined(EVEN, 6, 11, "R JOIN S USING (a)") == 10 * 5 * 200
    assert joined(EVEN, 6, 11, "T JOIN U USING (c)") == 10 * 5 * 200
    assert joined(EVEN, 0, 11, "(SELECT b FROM S OFFSET 1200) JOIN T USING (b)") == 0


def test_a_script_says_the_same_twice() -> None:
    for script in (EVEN, FAST, Shop(50, 2.0)):
        for one, other in zip(script.rows(3).values(), script.rows(3).values(), strict=True):
            assert all((one[column] == other[column]).all() for column in one)


def test_the_large_intermediate_result_is_as_large_as_the_planner_is_told() -> None:
    known = FAST.statistics().sizes
    sizes = {
        ("R", "S"): joined(FAST, 0, 5, "R JOIN S USING (a)"),
        ("S", "T"): joined(FAST, 0, 5, "S JOIN T USING (b)"),
        ("T", "U"): joined(FAST, 0, 5, "T JOIN U USING (c)"),
        ("S", "T", "U"): joined(FAST, 0, 5, "S JOIN T USING (b) JOIN U USING (c)"),
        ("R", "S", "T"): joined(FAST, 0, 5, "R JOIN S USING (a) JOIN T USING (b)"),
    }
    assert {key: size for key, size in sizes.items() if not 0.7 < size / known[key] < 1.4} == {}


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


def test_batches_take_files_in_as_their_rows_tell() -> None:
    found = taken(FOUR, [entry(0, 0.5, R=40, S=80), entry(1, 0.9, R=80, S=40, T=160)])
    assert found["R"].batches == [0, 1, 1, -1]
    assert found["S"].batches == [0, 0, 1, -1]
    assert found["T"].batches == [1, 1, 1, 1]
    assert found["U"].batches == [-1] * 4


def test_a_batch_that_ends_within_a_file_is_an_error() -> None:
    with pytest.raises(ClashError, match="within a file"):
        taken(FOUR, [entry(0, 0.5, R=41)])


def test_latency_is_from_due_to_commit_and_what_is_open_has_waited_so_long() -> None:
    progress = [entry(0, 0.5, R=40), entry(1, 1.5, R=40)]
    tuples = of_tuples({"R": taken(FOUR, progress)["R"]}, commits(progress), 1000.0, 1003.0)
    assert tuples.latency[:40] == pytest.approx(0.5 - due(0, 40))
    assert tuples.latency[40:80] == pytest.approx(1.5 - due(1, 40))
    assert tuples.latency[80:] == pytest.approx(3.0 - tuples.due[80:])
    assert Counter(tuples.open.tolist()) == {False: 80, True: 80}
    assert tuples.of_second(1).quantile(0.5) is None


def test_latency_of_results_counts_from_their_last_part(tmp_path: Path) -> None:
    times = pa.array([1000_100_000, 1000_300_000], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"r": times, "s": times[::-1]}), tmp_path / "part-000000007-x-0.parquet")
    results = of_results(tmp_path, ("r", "s"), {7: 1000.5}, 1000.0)
    assert results.due == pytest.approx([0.3, 0.3])
    assert results.latency == pytest.approx([0.2, 0.2])
    assert len(of_results(tmp_path / "none", ("r",), {}, 0.0).due) == 0


def test_what_batches_did_is_spread_over_their_time() -> None:
    assert spread(np.array([1.0, 3.0]), [10, 40], 4).tolist() == [10, 20, 20, 0]


def test_costs_are_compared_by_round() -> None:
    static = Cost(1, "static", 100, 1, 1.0, 2.0, 0.5, 0.5, 1.0, 100.0, None, None, 0.0)
    other = replace(static, arm="adaptive", tuples_per_second=98.0, seconds=1.02, cpu_seconds=2.1)
    lines = compared([other, static, replace(static, seconds=1.02), replace(other, seconds=1.06)])
    assert [line.ratio for line in lines] == pytest.approx([2.02 / 2.08] * 4)
    assert "2.0 % less; median of the rounds 2.9 % less, with 5.0 % more CPU" in summary(lines)


def test_twenty_questions_differ_and_name_their_parts() -> None:
    texts = [question.text for question in (*QUESTIONS, BASE)]
    assert len(set(texts)) == 21
    assert QUESTIONS[0].text == "SELECT o.id AS n_o, p.id AS n_p FROM orders o, payments p WHERE o.id = p.order_id"
    assert sum(not question.history for question in QUESTIONS) == 5


@pytest.mark.parametrize("name", ["selectivity", "store"])
def test_plots_are_written(tmp_path: Path, name: str) -> None:
    script = Selectivity(100) if name == "selectivity" else Small(100, 10)
    lines = [
        Second(name, arm, run, "R 100/s", at, 10, int(at > 25), 300.0 + at * run, 500.0 + at, 600.0, 0, None, None, 0)
        for arm in ARMS
        for run in (1, 2, 3)
        for at in range(30)
    ]
    draw_latencies(name, lines, [-1.0, 18.0], script, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000
    assert [line.p50 for line in middle(lines, "static")][:3] == [300.0, 302.0, 304.0]
    assert fall(lines, "adaptive", 2, script.timing) == "314 → 354 ms (+13 %)"


def test_the_plot_of_changes_is_written(tmp_path: Path) -> None:
    asked = Asked("q01", "SELECT", True, 2.0, 6.0, 3.5, 4, 4, 9, 10, 0, 0, True)
    seconds = [Moment(at, 1 + (3 <= at < 7), 100, 100.0, 20.0, 300.0, None if at == 9 else 500.0, 0) for at in range(10)]
    draw_changes(Ran([asked], seconds, 0.0), 25, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_the_paper_has_thirty_seconds_of_the_first_and_fewer_of_what_failed() -> None:
    assert len(LATENCY["selectivity", "adaptive"]) == 30
    assert max(LATENCY["selectivity", "static"]) == 20
