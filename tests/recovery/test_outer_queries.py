"""An outer query that is killed around its sink goes on exactly: no result of the join is counted twice, and none is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .process import running

FILES, ROWS, KEYS = 3, 200, 20


def write(root: Path) -> dict[str, pa.Table]:
    random = np.random.default_rng(7)
    whole: dict[str, pa.Table] = {}
    for stream, other in {"R": "x", "S": "b"}.items():
        (root / stream).mkdir(parents=True)
        tables = [pa.table({"a": random.integers(0, KEYS, ROWS), other: random.integers(0, 9, ROWS)}) for _ in range(FILES)]
        for number, table in enumerate(tables):
            pq.write_table(table, root / stream / f"{number}.parquet")
        whole[stream] = pa.concat_tables(tables)
    return whole


def test_killed_around_the_sink(tmp_path: Path) -> None:
    """Both sinks may be killed at either point: in which of the two it happens is left to Spark."""
    data = write(tmp_path / "in")
    joined = data["R"].join(data["S"], "a", join_type="inner")
    groups = {
        row["b"]: (row["b_count"], row["x_sum"]) for row in joined.group_by("b").aggregate([("b", "count"), ("x", "sum")]).to_pylist()
    }
    job = Path(__file__).with_name("outer_job.py")
    for fail, trigger in (("before-outer-sink@2", "100 milliseconds"), ("after-outer-sink@1", None)):
        asked = {"fail": fail} if trigger is None else {"fail": fail, "trigger": trigger}
        with running(tmp_path, job=job) as process:
            assert process.play(**asked) is None, "it was not killed"
    with running(tmp_path, job=job) as process:
        assert process.play() == {"kept": joined.num_rows}, process.log()
    updates = pq.read_table(tmp_path / "out").to_pylist()
    latest = {row["b"]: (row["n"], row["x"]) for row in sorted(updates, key=lambda row: row["_batch"])}
    assert latest == groups
