"""TPC-H data as streams: every table in a shuffled order, cut into one Parquet file per micro-batch.

What is generated is a function of scale, number of batches and seed, so it is kept: a second run starts at once. A folder has its
name only once it is complete.
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

from clash.bench.tpch_queries import TABLES
from clash.errors import ClashError

if TYPE_CHECKING:
    from numpy.random import Generator

DATA = Path("bench/data")
SEED = 1
GROUP = 10_000  # rows of a row group
EPOCH = 1_700_000_000  # the first file's modification time: Spark reads files in that order


@dataclass(frozen=True)
class Data:
    """`rows` of every table; its files are `folder`/table/00000.parquet and so on, none of them empty."""

    folder: Path
    scale: float
    batches: int
    rows: dict[str, int]

    def files(self, table: str) -> list[Path]:
        return sorted((self.folder / table).glob("*.parquet"))

    def batch(self, number: int) -> dict[str, pa.Table]:
        """What arrives in one micro-batch, by stream; tables that have run out are not in it."""
        return {table: pq.read_table(files[number]) for table in TABLES if number < len(files := self.files(table))}


def tpch_data(scale: float, batches: int, root: Path = DATA, seed: int = SEED) -> Data:
    folder = root / f"tpch-sf{scale:g}-b{batches}-s{seed}"
    if not folder.exists():
        _make(folder, scale, batches, seed)
    rows = {table: sum(pq.read_metadata(file).num_rows for file in sorted((folder / table).iterdir())) for table in TABLES}
    return Data(folder, scale, batches, rows)


def _make(folder: Path, scale: float, batches: int, seed: int) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    ignore = folder.parent / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")  # data never gets into a repository, wherever it is put
    made = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        _generate(scale, made / "whole")
        for number, table in enumerate(TABLES):
            whole = pq.read_table(made / "whole" / f"{table}.parquet", columns=list(TABLES[table]))
            _cut(whole, made / table, batches, np.random.default_rng((seed, number)))
        shutil.rmtree(made / "whole")
        try:
            made.rename(folder)
        except OSError:
            if not folder.exists():  # somebody else was as quick: theirs is the same
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _generate(scale: float, folder: Path) -> None:
    beside = Path(sys.executable).with_name("tpchgen-cli")  # the wheel puts it beside Python, which need not be on the PATH
    program = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if program is None:
        raise ClashError("the TPC-H generator is missing", "tpchgen-cli", "pip install 'clash-on-spark[bench]'")
    command = [program, "parquet", "--quiet", f"--scale-factor={scale:g}", f"--output-dir={folder}", f"--tables={','.join(TABLES)}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise ClashError("TPC-H data could not be generated", ran.stderr.strip()[-500:], "is there room on the disk, and is the scale > 0?")


def _cut(whole: pa.Table, folder: Path, batches: int, rng: Generator) -> None:
    folder.mkdir(parents=True)
    shuffled = _plain(whole).take(pa.array(rng.permutation(whole.num_rows)))
    bounds = np.linspace(0, whole.num_rows, min(batches, whole.num_rows) + 1).astype(np.int64)
    for number, (start, end) in enumerate(pairwise(bounds)):
        file = folder / f"{number:05d}.parquet"
        # decimals as Spark writes them; several row groups, so that two tasks can read a file
        pq.write_table(shuffled.slice(start, end - start), file, store_decimal_as_integer=True, row_group_size=GROUP)
        os.utime(file, (EPOCH + number, EPOCH + number))


def _plain(whole: pa.Table) -> pa.Table:
    """Strings as strings: the generator's are views, which not every reader knows."""
    fields = [pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type) for f in whole.schema]
    return whole.cast(pa.schema(fields))
