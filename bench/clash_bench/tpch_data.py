"""TPC-H data as streams: every table in a shuffled order, cut into one Parquet file per micro-batch.

The data is a function of scale, number of batches and seed, so it is generated once and reused. A folder gets its final name only when it
is complete.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from clash.errors import ClashError
from clash_bench.tpch_queries import TABLES

if TYPE_CHECKING:
    from numpy.random import Generator

DATA = Path("bench/data")
SEED = 1
ROW_GROUP = 10_000  # rows of a row group
FIRST_MTIME = 1_700_000_000  # of the first file; Spark reads files in the order of their modification times


@dataclass(frozen=True)
class Data:
    """Generated data. Files are `folder`/table/00000.parquet and so on, none of them empty."""

    folder: Path
    scale: float
    batches: int
    rows: dict[str, int]
    """By table."""

    def files(self, table: str) -> list[Path]:
        return sorted((self.folder / table).glob("*.parquet"))

    def batch(self, number: int) -> dict[str, pa.Table]:
        """The rows of one micro-batch, by stream; tables with fewer batches are not in it."""
        return {table: pq.read_table(files[number]) for table in TABLES if number < len(files := self.files(table))}


def tpch_data(scale: float, batches: int, root: Path = DATA, seed: int = SEED) -> Data:
    """The data, from the folder `root` if it has been generated before."""
    folder = root / f"tpch-sf{scale:g}-b{batches}-s{seed}"
    if not folder.exists():
        _create(folder, scale, batches, seed)
    rows = {table: sum(pq.read_metadata(file).num_rows for file in sorted((folder / table).iterdir())) for table in TABLES}
    return Data(folder, scale, batches, rows)


def _create(folder: Path, scale: float, batches: int, seed: int) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    ignore = folder.parent / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")  # keeps the data out of any repository that the folder is in
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        _generate(scale, unfinished / "whole")
        for number, table in enumerate(TABLES):
            whole = pq.read_table(unfinished / "whole" / f"{table}.parquet", columns=list(TABLES[table]))
            _cut(whole, unfinished / table, batches, np.random.default_rng((seed, number)))
        shutil.rmtree(unfinished / "whole")
        try:
            unfinished.rename(folder)
        except OSError:
            if not folder.exists():  # otherwise another process has created it meanwhile, with the same content
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _generate(scale: float, folder: Path) -> None:
    beside_python = Path(sys.executable).with_name("tpchgen-cli")  # where the wheel installs it, which need not be on the PATH
    program = str(beside_python) if beside_python.exists() else shutil.which("tpchgen-cli")
    if program is None:
        raise ClashError("the TPC-H generator is missing", "tpchgen-cli", "pip install 'clash-on-spark[bench]'")
    command = [program, "parquet", "--quiet", f"--scale-factor={scale:g}", f"--output-dir={folder}", f"--tables={','.join(TABLES)}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise ClashError("TPC-H data could not be generated", ran.stderr.strip()[-500:], "is there room on the disk, and is the scale > 0?")


def _cut(whole: pa.Table, folder: Path, batches: int, rng: Generator) -> None:
    folder.mkdir(parents=True)
    shuffled = _without_string_views(whole).take(pa.array(rng.permutation(whole.num_rows)))
    bounds = np.linspace(0, whole.num_rows, min(batches, whole.num_rows) + 1).astype(np.int64)
    for number, (start, end) in enumerate(pairwise(bounds)):
        file = folder / f"{number:05d}.parquet"
        # decimals as integers, as Spark writes them; several row groups, so that two tasks can read a file
        pq.write_table(shuffled.slice(start, end - start), file, store_decimal_as_integer=True, row_group_size=ROW_GROUP)
        os.utime(file, (FIRST_MTIME + number, FIRST_MTIME + number))


def _without_string_views(whole: pa.Table) -> pa.Table:
    """Converts the generator's string views to strings, because not every reader supports views."""
    fields = [pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type) for f in whole.schema]
    return whole.cast(pa.schema(fields))
