"""A job with queries of every kind, killed at random points while queries, workers and a reference table change: it goes on exactly."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clash.state.failpoints import NAMES

from . import everything_queries as queries
from .oracle import read_by
from .process import running
from .shapes import set_age

JOB = Path(__file__).with_name("everything_job.py")
FILES, ROWS, KEYS, SECONDS = 8, 40, 8, 5  # SECONDS: the event times of a file
POINTS = sorted(NAMES - {"before-handover", "after-handover", "before-transaction", "in-transaction", "after-transaction",
                         "before-sources", "between-sources"})  # fmt: skip
STEPS = ("query", "refresh", "rescale")
QUICK = ("after-table-files@2", "before-projection@2", "after-outer-sink@1")
TEXTS = ("ab", "Ab", "abc", "xyz", "zz", "", None)
WITHIN = "abs(epoch_us({0}.ts) - epoch_us({1}.ts)) <= " + str(queries.WINDOW * 1_000_000)
Row = tuple[Any, ...]


class History:
    """One checkpoint, from its first start to its end."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.random = root, Random(seed)
        self.data = {stream: pa.concat_tables([self._file(stream, file) for file in range(FILES)]) for stream in "RS"}
        self.starts = self.killed = 0

    def _file(self, stream: str, file: int) -> pa.Table:
        rows = [
            {
                "id": file * ROWS + at,
                "a": self.random.randrange(KEYS),
                "x": self.random.choice(TEXTS),
                "ts": (file * SECONDS * 1_000_000 + self.random.randrange(SECONDS * 1_000_000)),
            }
            for at in range(ROWS)
        ]
        kinds = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("x", pa.string()), ("ts", pa.timestamp("us", "UTC"))])
        table = pa.Table.from_pylist(rows, kinds)
        target = self.root / "in" / stream / f".{file:03d}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target)
        set_age(target, file)
        return table

    def start(self, **asked: Any) -> dict[str, Any] | None:
        with running(self.root, job=JOB) as process:
            answer = process.play(version=10 * self.starts, **asked)
            assert answer is not None or "fail" in asked, process.log()
        self.starts += 1
        self.killed += answer is None
        return answer

    def play(self, points: list[str]) -> None:
        for point in points:
            self.start(fail=point, steps=self.random.sample(STEPS, 2))
        answer = self.start()
        assert answer is not None
        Ending(self, answer).check()


class Ending:
    """What there is at the end, compared with DuckDB over all rows. The batch of a result is that of the last file that it is of."""

    def __init__(self, history: History, answer: dict[str, Any]) -> None:
        self.history, self.answer = history, answer
        self.batches = read_by(history.root / "ck", FILES, "RS")
        self.db = duckdb.connect()
        self.db.execute("SET timezone = 'UTC'")
        for stream, table in history.data.items():
            self.db.register(stream, table)

    def check(self) -> None:
        assert all(max(batches) <= self.answer["batch"] for batches in self.batches.values())
        self._equal("projected", f"{queries.PROJECTED} AND {WITHIN.format('R', 'S')}")
        assert self._found("projected") == self._texts(pq.read_table(self.history.root / "out" / "projected"))
        self._equal("union", f"{queries.UNION} WHERE {WITHIN.format('u', 'S')}")
        self._check_totals()
        self._check_windows()
        self._check_table()
        self._check_added()
        assert not [*self.history.root.rglob("_staging/*.parquet")]
        self.db.close()

    def _found(self, name: str) -> Counter[Row]:
        return Counter(map(tuple, self.answer["found"][name]))

    def _expected(self, text: str) -> list[Row]:
        rows = [tuple(map(str, row)) for row in self.db.sql(text).fetchall()]
        assert rows, text
        return rows

    def _texts(self, table: pa.Table) -> Counter[Row]:
        return Counter(tuple(map(str, row.values())) for row in table.to_pylist())

    def _equal(self, name: str, text: str) -> None:
        assert self._found(name) == Counter(self._expected(text)), name

    def _check_totals(self) -> None:
        """The last update of a group counts."""
        rows = sorted(pq.read_table(self.history.root / "out" / "totals").to_pylist(), key=lambda row: row["_batch"])
        latest = {str(row["a"]): (str(row["a"]), str(row["n"]), str(row["d"])) for row in rows}
        text = queries.TOTALS.replace(" GROUP BY", f" WHERE {WITHIN.format('R', 'S')} GROUP BY")
        assert Counter(latest.values()) == Counter(self._expected(text))

    def _check_windows(self) -> None:
        """Each window at most once and whole; and all that the last watermark, which is that of the batch before, has closed."""
        start = f"CAST(R.ts AT TIME ZONE 'UTC' - to_microseconds(epoch_us(R.ts) % {SECONDS * 1_000_000}) AS timestamp)"
        text = f"SELECT {start} AS at, count(*) AS n {queries.JOINED} WHERE {WITHIN.format('R', 'S')} GROUP BY ALL ORDER BY ALL"
        expected = self._expected(text)
        found = self._found("windows")
        assert max(found.values()) == 1
        assert found.keys() <= set(expected)
        closed = (FILES - 1) * SECONDS - queries.LATENESS - queries.WINDOW - SECONDS
        assert set(expected[: closed // SECONDS]) <= found.keys()

    def _check_table(self) -> None:
        """Every row of R joins one version of the table, those of a batch the same one, and later batches no earlier one."""
        version_of = {int(row): int(version) for row, version in self.answer["found"]["named"]}
        joined = [row["id"] for row in self.history.data["R"].to_pylist() if row["a"] < queries.KEYS_OF_TABLE]
        assert sorted(int(row) for row, _ in self.answer["found"]["named"]) == sorted(joined)
        by_batch: dict[int, set[int]] = {}
        for row in joined:
            by_batch.setdefault(self.batches["R"][row // ROWS], set()).add(version_of[row])
        versions = [version for _, version in sorted(by_batch.items())]
        assert {len(version) for version in versions} == {1}
        assert all(min(a) <= min(b) for a, b in pairwise(versions))
        assert len(set.union(*versions)) > 1

    def _check_added(self) -> None:
        """Whenever it is live, it has all results that are complete in that batch, and no others."""
        generations = self.answer["generations"]
        live: set[int] = set()
        for (batch, is_live), (end, _) in pairwise([*generations, [self.answer["batch"] + 1, False]]):
            live |= set(range(batch, end)) if is_live else set()
        expected = [
            row for row in self._expected(f"{queries.ADDED} WHERE {WITHIN.format('R', 'S')}")
            if max(self.batches[stream][int(at) // ROWS] for stream, at in zip("RS", row, strict=False)) in live
        ]  # fmt: skip
        found = Counter(map(tuple, self.answer["found"].get("added", [])))
        assert found == Counter(expected)


def test_killed_with_everything_live(tmp_path: Path) -> None:
    history = History(tmp_path, 1)
    history.play([*QUICK])
    assert history.killed >= 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 10))
def test_killed_anywhere_with_everything_live(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    history.play([f"{point}@{history.random.randrange(1, 4)}" for point in history.random.sample(POINTS, 4)])
