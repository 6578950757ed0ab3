"""A job with a table that is killed between its decision and its commit, and in a refresh: every batch has the rows recorded for it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from .process import running

FILES, ROWS = 3, 10


def test_killed_around_a_refresh(tmp_path: Path) -> None:
    (tmp_path / "in" / "R").mkdir(parents=True)
    for file in range(FILES):
        path = tmp_path / "in" / "R" / f"{file}.parquet"
        pq.write_table(pa.table({"a": [at % 4 for at in range(ROWS)], "x": [file] * ROWS}), path)
        os.utime(path, (file, file))  # Spark reads files in the order of their times
    job = Path(__file__).with_name("table_job.py")
    for name, fail in (("first", "before-manifest@2"), ("second", "after-table-files@1")):
        with running(tmp_path, job=job) as process:
            assert process.play(name=name, fail=fail) is None, "it was not killed"
    with running(tmp_path, job=job) as process:
        assert process.play(name="third") == {"done": True}, process.log()
    found = Counter((row["x"], row["name"]) for row in pq.read_table(tmp_path / "out").to_pylist())
    matching = sum(1 for at in range(ROWS) if at % 4 < 3)
    # the second batch was decided while the table was the first: it is run again with that version, and the next one has what was read last
    assert found == {(0, "first"): matching, (1, "first"): matching, (2, "third"): matching}
    assert len(list((tmp_path / "ck" / "clash" / "tables" / "N").iterdir())) == 1
