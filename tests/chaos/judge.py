"""What can be read of results and late rows, beside what the oracle says of the batches that are committed.

What is judged: every file that readers see. A published file that the history itself damages or deletes belongs to the user from then on;
it counts with the rows that it had (`Reader.lost`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pyarrow.parquet as pq

from ..oracle.case import Batch, Case, Row, plain_rows
from ..oracle.oracle import Expected, expect
from ..recovery import fitted
from .cases import drawn_case
from .folders import CHECKPOINT, OURS
from .requests import sink_folder

Rows = Counter[Row]
Files = Mapping[str, Mapping[int, int]]  # by stream and file, the batch that read it


def regrouped(case: Case, files: Files, last: int) -> Case:
    """The case with the batches that there were, up to the last one."""
    batches = []
    for number in range(last + 1):
        rows = {
            name: tuple(row for file in sorted(read) if read[file] == number for row in case.batches[file].rows.get(name, ()))
            for name, read in files.items()
            if number in read.values()
        }
        of_case = case.batches[number] if number < len(case.batches) else Batch(case.batches[-1].now)
        batches.append(replace(of_case, rows=rows))
    return replace(case, batches=tuple(batches))


class Oracle:
    """What the batches of a case must give; by its number, as several histories have it."""

    def __init__(self, number: int) -> None:
        self.case = drawn_case(number)
        self.lives = fitted.lives(self.case)
        self._expected = lru_cache(None)(self._compute)

    def expected(self, files: Files, last: int) -> Expected:
        """Of all batches up to the last one."""
        read = tuple((name, tuple(sorted((f, b) for f, b in of.items() if b <= last))) for name, of in sorted(files.items()))
        return self._expected(read, last)

    def _compute(self, read: tuple[tuple[str, tuple[tuple[int, int], ...]], ...], last: int) -> Expected:
        files = {name: dict(of) for name, of in read}
        begins = {name: min(of.values()) for name, of in files.items() if of}
        lives = [life for life in self.lives if life.first <= last]
        return expect(regrouped(self.case, files, last), lives, begins)


_oracle = lru_cache(4)(Oracle)


class Reader:
    """`lost`: published files that the history has damaged or deleted, with the rows that they had."""

    def __init__(self, number: int, base: Path) -> None:
        self.oracle, self.case, self.base = _oracle(number), drawn_case(number), base
        self.lost: dict[Path, Rows] = {}

    def differences(self, files: Files, last: int, published: int | None = None) -> Iterator[str]:
        """`published`: the results of batches after it need not be there."""
        most = self.oracle.expected(files, last)
        least = most if published is None else self.oracle.expected(files, published)
        ours = self.base / CHECKPOINT / OURS
        for life in self.oracle.lives:
            folder = sink_folder(self.base, life.ask.name) or ours / "results" / life.ask.name
            allowed, needed = (Counter(row for _, row in of.results.get(life.key, Counter()).elements()) for of in (most, least))
            yield from _compared(f"results of {life.ask.name}", self._read(folder), allowed, needed)
        for stream in self.case.streams:
            found = self._read(ours / "late" / stream.name, [name for name, _ in stream.columns])
            yield from _compared(f"late rows of {stream.name}", found, most.late[stream.name], least.late[stream.name])

    def _read(self, folder: Path, columns: list[str] | None = None) -> Rows:
        found: Rows = Counter()
        there = set(folder.glob("*.parquet"))
        for file in there.union(file for file in self.lost if file.parent == folder):
            found.update(self.lost[file] if file in self.lost else read_rows(file, columns))
        return found

    def lose(self, file: Path) -> None:
        """A published file is about to be damaged, perhaps once more."""
        if file in self.lost:
            return
        late = file.parent.parent.name == "late"
        columns = [name for name, _ in self.case.by_name[file.parent.name].columns] if late else None
        self.lost[file] = read_rows(file, columns)


def batch_of(file: Path) -> int:
    """Of a result file, by its name."""
    return int(file.name.split("-")[1])


def read_rows(file: Path, columns: list[str] | None = None) -> Rows:
    table = pq.ParquetFile(file).read()
    return Counter(plain_rows((table if columns is None else table.select(columns)).columns))


def _compared(what: str, got: Rows, allowed: Rows, needed: Rows) -> Iterator[str]:
    for word, odd in (("extra", got - allowed), ("missing", needed - got)):
        if odd:
            some = ", ".join(f"{row} × {count}" for row, count in list(odd.items())[:2])
            yield f"{what}: {odd.total()} {word} of {allowed.total()}, e.g. {some}"
