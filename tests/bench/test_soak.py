"""The soak: its comparison with DuckDB finds what is missing and what is wrong, and its trends say what grows."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash.protocol.result_files import file_name
from clash_bench.soak_check import CheckedLife, check
from clash_bench.soak_data import FILES, FORMULAS, RATE, WINDOW, SoakQuery, random_query, tap
from clash_bench.soak_plot import describe_trends, draw_soak, trend
from clash_bench.soak_sample import Sample, read_samples
from clash_bench.tables import write

BATCHES, PER_BATCH = 6, 2 * RATE
QUERY = SoakQuery(("A", "B", "C"), ("k1", "k2"), 20)


def rows(batch: int) -> pa.Table:
    ids = np.arange(batch * PER_BATCH, (batch + 1) * PER_BATCH)
    times = pa.array((ids * 1_000_000 // RATE).astype("int64"), pa.timestamp("us", "UTC"))
    return pa.table({"id": ids, "k1": ids * 7919 % 100, "k2": ids % 200, "amount": ids * 13 % 100, "ts": times})


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """The results of a run in process, in folders as Parquet sinks have them."""
    columns = {**dict.fromkeys(("id", *FORMULAS), "bigint"), "ts": "timestamp"}
    streams = [Stream.of(name, columns, time="ts", window=f"{WINDOW} seconds", lateness="2 seconds") for name in FILES]
    run = InProcessEngine(streams, {**{f"tap_{name}": tap(name) for name in FILES}, "q": QUERY.text})
    for batch in range(BATCHES):
        done = run.batch(dict.fromkeys(FILES, rows(batch)))
        for query, urls in done.results.items():
            (tmp_path / query).mkdir(exist_ok=True)
            for at, url in enumerate(urls):
                content = run.coordinator.storage.read(url.removeprefix(f"{run.uri}/"))
                (tmp_path / query / file_name(batch, "0" * 12, "0" * 8, "w", at)).write_bytes(content)
    return tmp_path


def test_equal_results_are_told_equal_and_changed_ones_are_found(ran: Path) -> None:
    taps = {name: ran / f"tap_{name}" for name in FILES}
    life = CheckedLife("q", QUERY, ran / "q", True, 0, 0, None)
    first = check(taps, [life], 0, 3, {})
    assert first.differences == ()
    assert first.next_ids == dict.fromkeys(FILES, 3 * PER_BATCH)
    second = check(taps, [life], 3, BATCHES, first.next_ids)
    assert second.differences == ()
    assert first.results > 0 < second.results
    file = next(path for path in sorted((ran / "q").iterdir()) if pq.read_metadata(path).num_rows)
    table = pq.read_table(file)
    pq.write_table(table.slice(1), file)
    assert "0 wrong, 1 missing" in check(taps, [life], 0, BATCHES, {}).differences[0]
    assert check(taps, [replace(life, complete=None)], 0, BATCHES, {}).differences == ()  # before it is complete some may be missing
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), file)
    assert "1 wrong, 0 missing" in check(taps, [life], 0, BATCHES, {}).differences[0]
    next(iter(sorted(taps["A"].iterdir()))).unlink()
    assert check(taps, [], 0, BATCHES, {}).differences


def test_queries_are_joins_of_different_streams() -> None:
    for seed in range(50):
        query = random_query(Random(seed), (*FILES, "D"))
        assert 2 <= len(set(query.streams)) == len(query.streams) <= 4
        assert len(query.keys) == len(query.streams) - 1


def test_trends() -> None:
    hours = np.linspace(0, 7200, 200)
    assert trend(hours, np.full(200, 5.0)).startswith("flat")
    assert trend(hours, 100 + hours / 3600).startswith("flat")  # one per cent an hour
    assert trend(hours, 10 + hours / 3600).startswith("grows by 1 an hour")
    assert trend(hours, np.where(hours < 1000, 50.0, 10.0)).startswith("flat")  # the warm-up does not count
    assert trend(hours[:3], hours[:3]) == "too few values"


def test_the_picture_is_drawn_from_the_file(tmp_path: Path) -> None:
    empty = Sample(**dict.fromkeys([field.name for field in fields(Sample)], 1))  # type: ignore[arg-type]
    samples = [replace(empty, second=10.0 * at, batch_seconds=None if at == 0 else 0.5) for at in range(30)]
    write(tmp_path / "soak.csv", Sample, samples)
    assert read_samples(tmp_path / "soak.csv") == samples
    draw_soak(samples, tmp_path / "soak.png")
    assert (tmp_path / "soak.png").stat().st_size > 10_000
    assert all("flat" in line for line in describe_trends(samples))
