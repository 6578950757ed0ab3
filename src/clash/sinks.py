"""Where results go.

`Parquet` files become visible with the commit of their batch: each result is there exactly once. `Memory` keeps results in this
process. A function (`Console`, `ForeachBatch`) is handed each batch at least once: after a crash it may see a batch again, under
the same number and with the same rows.
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
    """Parquet files in a folder, read by anyone who reads Parquet; a relative path is meant from where the program runs."""

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike) or not str(self.path).strip():
            raise OptionError("the path of a Parquet sink is not a path", repr(self.path), 'write clash.sinks.Parquet("out/q1")')

    @property
    def url(self) -> str:
        """Absolute: tasks may run in another folder, or on another machine."""
        path = os.fspath(self.path)
        return path if ":/" in path else str(Path(path).expanduser().absolute())


@dataclass(frozen=True)
class Memory:
    """Kept in the memory of this process, for `run.results`; gone with it."""


@dataclass(frozen=True)
class Console:
    """The first `rows` results of each batch on standard output."""

    rows: int = 20

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise OptionError("the number of rows is out of range", repr(self.rows), "write a whole number from 1")


@dataclass(frozen=True)
class ForeachBatch:
    """`function(df, batch)` for every batch: a DataFrame of its results, which may be empty, and its number."""

    function: Callable[[Any, int], object]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise OptionError("the sink's function is not a function", repr(self.function), "write a function of (df, batch)")


Sink = Parquet | Memory | Console | ForeachBatch
