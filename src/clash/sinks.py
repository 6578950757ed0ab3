"""Sinks: where the results of a query go.

`Parquet` is exactly once: files become visible with the commit of their batch. `Memory` holds results in this process. `Console` and
`ForeachBatch` call a function at least once per batch: after a crash they may receive a batch again, with the same number and rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clash.errors import OptionError


@dataclass(frozen=True)
class Parquet:
    """Parquet files in a folder. A relative path is resolved against the working directory of the program."""

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike) or not isinstance(os.fspath(self.path), str) or not str(self.path).strip():
            raise OptionError("the path of a Parquet sink is not a path", repr(self.path), 'write clash.sinks.Parquet("out/q1")')
        path = os.fspath(self.path)
        if any(character < " " or character == "\x7f" for character in path):
            raise OptionError("the path of a Parquet sink has control characters", repr(path), 'write clash.sinks.Parquet("out/q1")')
        name = self.url.rstrip("/").rpartition("/")[2]
        if name.startswith(("_", ".")) and name != "..":
            raise OptionError(
                "readers leave out the folder of a Parquet sink",
                f"{path!r}: names that begin with _ or . are hidden",
                "give it another name, such as out/q1",
            )

    @property
    def url(self) -> str:
        """The absolute path or URL: tasks may run in another working directory, or on another machine."""
        path = os.fspath(self.path)
        return path if ":/" in path else str(Path(path).expanduser().absolute())


@dataclass(frozen=True)
class Memory:
    """Results stay in the memory of this process, for `run.results`, and are lost when it ends."""


@dataclass(frozen=True)
class Console:
    """Prints the first `rows` results of each batch to standard output."""

    rows: int = 20

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise OptionError("the number of rows is out of range", repr(self.rows), "write a whole number from 1")


@dataclass(frozen=True)
class ForeachBatch:
    """Calls `function(df, batch)` for every batch, with a DataFrame of its results, which may be empty, and its number."""

    function: Callable[[Any, int], object]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise OptionError("the sink's function is not a function", repr(self.function), "write a function of (df, batch)")


Sink = Parquet | Memory | Console | ForeachBatch
