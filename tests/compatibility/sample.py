"""A small checkpoint with some of everything, and the program that wrote it. `python -m tests.compatibility.sample` writes one of today's
format. Keep the samples of earlier formats: a version must read what the version before wrote."""

from __future__ import annotations

import os
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa

from clash.coordinator.checkpoint.source_registry import FORMAT
from clash.inprocess.engine import InProcessEngine
from clash.model.statistics import Statistics
from clash.model.stream import Stream

FOLDER = Path(__file__).parent
COLUMNS = {"a": "bigint", "b": "bigint", "name": "string", "ts": "timestamp"}
STREAMS = [Stream.of(name, COLUMNS, time="ts", lateness="2 seconds") for name in "RST"]
CHAIN = "SELECT R.a AS x, S.b AS y, T.name AS z FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b"
PAIR = "SELECT R.a AS x, T.name AS y FROM R JOIN T ON R.a = T.b"  # over columns that are stored already
ADDED, RESCALED, FAILED, LAST = 2, 4, 6, 8  # batches

Row = tuple[int, int, str, int]


def rows(batch: int, stream: str) -> list[Row]:
    rng = Random(f"{batch} {stream}")
    return [(rng.randrange(4), rng.randrange(4), rng.choice("xyz"), batch * 1_000_000 + n) for n in range(12)]


def tables(batch: int) -> dict[str, pa.Table]:
    return {stream.name: _table(rows(batch, stream.name)) for stream in STREAMS}


def _table(content: list[Row]) -> pa.Table:
    a, b, name, ts = zip(*content, strict=True)
    times = pa.array(ts, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return pa.table({"a": pa.array(a, pa.int64()), "b": pa.array(b, pa.int64()), "name": pa.array(name), "ts": times})


def engine(uri: str) -> InProcessEngine:
    statistics = Statistics(rates={"R": 1000, "S": 10, "T": 10}, default_selectivity=0.001)  # such that S ⋈ T is worth keeping
    return InProcessEngine(STREAMS, {"chain": CHAIN}, uri=uri, workers=3, statistics=statistics, tuning={"relayout_rows": 20})


def write(uri: str) -> None:
    """Batches up to FAILED - 1 are committed; FAILED was decided and has failed."""
    running = engine(uri)
    for batch in range(FAILED):
        if batch == ADDED:
            running.add_query("pair", PAIR)
        if batch == RESCALED:
            running.rescale(2)
        running.batch(tables(batch))
    os.environ["CLASH_FAILPOINT"] = "before-manifest!raise"
    try:
        with suppress(RuntimeError):
            running.batch(tables(FAILED))
    finally:
        del os.environ["CLASH_FAILPOINT"]
    running.coordinator.close()


def expected(query: str) -> Counter[tuple[object, ...]]:
    """By brute force: all combinations of which at least one part came under the query."""
    first = ADDED if query == "pair" else 0
    names = "RST" if query == "chain" else "RT"
    parts = [[(batch, row) for batch in range(LAST + 1) for row in rows(batch, name)] for name in names]
    return Counter(
        result for found in product(*parts) if max(b for b, _ in found) >= first for result in _join(query, [r for _, r in found])
    )


def _join(query: str, parts: list[Row]) -> Iterator[tuple[object, ...]]:
    if query == "pair":
        r, t = parts
        if r[0] == t[1]:
            yield r[0], t[2]
    else:
        r, s, t = parts
        if r[0] == s[0] and s[1] == t[1]:
            yield r[0], s[1], t[2]


def main() -> None:
    with TemporaryDirectory() as folder:
        write(f"{folder}/checkpoint")
        with tarfile.open(FOLDER / f"format-{FORMAT}.tar.gz", "w:gz") as archive:
            archive.add(f"{folder}/checkpoint", "checkpoint")
    sys.stdout.write(f"wrote format-{FORMAT}.tar.gz\n")


if __name__ == "__main__":
    main()
