"""Results as CSV files, and progress messages."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any


def write(path: Path, kind: type[Any], rows: Iterable[Any], is_added: bool = False) -> None:
    """Writes one line per row, and one column per field of the dataclass `kind`; None and NaN become empty cells. `is_added`: the rows
    follow those that the file has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a" if is_added else "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(kind)], lineterminator="\n")
        if not is_added:
            writer.writeheader()
        for row in rows:
            writer.writerow({name: _cell(value) for name, value in asdict(row).items()})


def _cell(value: object) -> object:
    """Six significant digits, or two decimals from 1,000 on: more is noise, and would show in every diff."""
    if not isinstance(value, float):
        return "" if value is None else value
    if not math.isfinite(value):
        return ""
    return f"{value:.6g}" if abs(value) < 1000 else f"{value:.2f}".rstrip("0").rstrip(".")


def mean(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean and its standard error, which is None for a single value."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return statistics.fmean(values), error


def note(text: str) -> None:
    """Prints a progress message on stderr, because the runs take minutes."""
    from rich.console import Console

    Console(stderr=True, highlight=False).print(text, markup=False, soft_wrap=True)
