"""`clash demo` runs on Spark and checks itself, its data is as documented, and colours change no character."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import clash
from clash.cli.demo import QUERIES, SELECTIVITIES, STREAMS
from clash.cli.demo_data import DISORDER, Feeder, history
from clash.cli.demo_run import Shop, check
from clash.cli.paint import paint, show_plan
from clash.errors import ClashError
from clash.expressions.arrow_types import arrow_type
from clash.inprocess.engine import InProcessEngine


def test_demo() -> None:
    """On real Spark, in a process of its own: it ends the Spark that it started."""
    program = "from clash.cli.main import main; main()"
    arguments = [sys.executable, "-c", program, "demo", "--minutes", "4", "--workers", "2", "--ui", "127.0.0.1:0"]
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}
    ran = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [name for name in (*STREAMS, *QUERIES) if name not in ran.stdout] == []
    assert "what a tuple of orders does: " in ran.stdout
    assert re.search(r"Watch it: http://127\.0\.0\.1:\d+/\?token=\S{20,}\n", ran.stdout)
    assert "query browsing is added, while the others run" in ran.stdout
    assert "40 times as many tickets arrive from now on" in ran.stdout
    assert "of the estimated cost of 5 queries each on its own" in ran.stdout
    assert re.search(
        r"Checked: all [\d,]{5,} results of 6 queries equal those of DuckDB's batch joins over the same files\.\n$", ran.stdout
    )


def shop(minutes: int = 12) -> Shop:
    return Shop(
        streams=tuple(clash.Stream.of(name, columns, time="ts", window="5 minutes") for name, (columns, _) in STREAMS.items()),
        statistics=clash.Statistics(rates={name: rate / 20 for name, (_, rate) in STREAMS.items()}, selectivities=SELECTIVITIES),
        questions={name: question for name, (question, _) in QUERIES.items()},
        queries={name: sql for name, (_, sql) in QUERIES.items()},
        window="5 minutes",
        minutes=minutes,
        workers=2,
    )


def test_history_is_a_function_of_its_seed() -> None:
    rates = {"clicks": 50.0, "orders": 20.0, "tickets": 5.0}
    first, second = history(3, rates), history(3, rates)
    assert list(first) == list(STREAMS)
    assert first == second != history(3, rates, seed=8)
    for name, table in first.items():
        assert table.column_names == [*STREAMS[name][0], "slice"]
        assert table["slice"].to_pylist() == sorted(table["slice"].to_pylist())
        assert [str(arrow_type(kind)) for kind in STREAMS[name][0].values()] == [str(kind) for kind in table.schema.types[:-1]]


def test_no_row_arrives_later_than_the_streams_allow() -> None:
    for table in history(5, {"clicks": 500.0, "orders": 200.0, "tickets": 50.0}).values():
        times = table["ts"].cast("int64").to_numpy()
        highest = np.maximum.accumulate(times)
        assert 0 < (highest - times).max() <= DISORDER


def test_the_feeder_writes_every_row(tmp_path: Path) -> None:
    tables = history(2, {"clicks": 50.0, "orders": 20.0, "tickets": 1.0})
    feeder = Feeder(tables, tmp_path, 4, pause=0.0)
    feeder.start()
    feeder.join()
    assert (feeder.done, feeder.error) == (4, None)
    for name, table in tables.items():
        written = [pq.read_table(file) for file in sorted((tmp_path / name).glob("*.parquet"))]
        assert pa.concat_tables(written).equals(table.drop_columns("slice"))


def test_a_feeder_that_cannot_write_reports_the_error(tmp_path: Path) -> None:
    feeder = Feeder(history(1, {"clicks": 50.0, "orders": 20.0, "tickets": 1.0}), tmp_path, 2, pause=0.0)
    (tmp_path / "orders").rmdir()
    feeder.start()
    feeder.join()
    assert isinstance(feeder.error, OSError)


def test_the_check_finds_a_missing_and_a_wrong_result(tmp_path: Path) -> None:
    """The in-process transport writes what the engine would have written; the window is shorter than the history."""
    small_shop = shop()
    tables = history(small_shop.minutes, {name: small_shop.statistics.rate(name) / 10 for name in STREAMS})
    feeder = Feeder(tables, tmp_path / "in", small_shop.minutes * 2, pause=0.0)
    feeder.run()
    job = InProcessEngine(small_shop.streams, small_shop.queries, statistics=small_shop.statistics)
    for number in range(feeder.slices):
        job.batch({name: table.filter(pc.equal(table["slice"], number)).drop_columns("slice") for name, table in tables.items()})
    for query in small_shop.queries:
        (tmp_path / "out" / query).mkdir(parents=True)
        pq.write_table(job.results(query), tmp_path / "out" / query / "part.parquet")
    assert check(small_shop, tmp_path) == {query: job.results(query).num_rows for query in small_shop.queries}
    part = tmp_path / "out" / "tracking" / "part.parquet"
    right = pq.read_table(part)
    for wrong in (right.slice(1), right.set_column(0, "order_id", right["order_id"].take(pa.array(range(right.num_rows))[::-1]))):
        pq.write_table(wrong, part)
        with pytest.raises(ClashError, match="results differ from DuckDB's"):
            check(small_shop, tmp_path)


@given(
    st.lists(st.sampled_from(["  orders › payments[id] » T[*]   cost 5", "▸ global   █", "[red]", "PLAN", "q = R", "    shares x", "\t"]))
)
def test_painting_changes_no_character(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    assert paint(text).plain == text
    plain = io.StringIO()
    show_plan(Console(file=plain), text)
    assert plain.getvalue() == text


def test_a_terminal_gets_colours() -> None:
    seen = io.StringIO()
    show_plan(Console(file=seen, force_terminal=True, color_system="standard", highlight=False), "q1 = R ⋈ S\n  R › S[a]   cost 1\n")
    assert "\x1b[" in seen.getvalue()
