"""What is known of a reference table without reading it: its versions, and the files that a version consists of.

Invariant: files never change. A version is a set of files, each with the rows of it that no longer count, so the rows of a version are
those of its files without the removed ones, as a multiset. A batch joins the rows of one version, which its decision records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

FOLDER = "tables"
REMOVED = "row"  # the column of a file that lists removed rows, by their numbers


@dataclass(frozen=True, slots=True)
class TableFile:
    """Rows that one refresh added, in a container without indexes."""

    path: str
    rows: int
    bytes: int
    removed_path: str | None = None
    """The container with the numbers of the rows that later refreshes have removed; None where there are none."""
    removed_rows: int = 0
    removed_bytes: int = 0

    @property
    def live_rows(self) -> int:
        return self.rows - self.removed_rows

    def paths(self) -> Iterator[str]:
        yield self.path
        if self.removed_path is not None:
            yield self.removed_path


@dataclass(frozen=True)
class TableVersion:
    number: int
    """Counts the versions of the table, from 1."""
    columns: tuple[tuple[str, str], ...]
    """Name and Spark type of each column, in order."""
    files: tuple[TableFile, ...]
    read_at: int
    """The time in microseconds at which its rows were read."""
    distinct: Mapping[str, int] = field(default_factory=dict)
    """By column, how many different values there are, for the planner; without columns that cannot be compared."""

    @property
    def rows(self) -> int:
        return sum(file.live_rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes + file.removed_bytes for file in self.files)

    def paths(self) -> Iterator[str]:
        for file in self.files:
            yield from file.paths()


def paths_of(versions: Mapping[str, TableVersion]) -> set[str]:
    """The files of all versions."""
    return {path for version in versions.values() for path in version.paths()}
