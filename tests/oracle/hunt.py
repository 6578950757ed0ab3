"""Thousands of random histories: `python -m tests.oracle.hunt FIRST COUNT [JOBS]`. For each one that goes wrong: its seed, what is
wrong, and the smallest history that shows it, as Python."""

from __future__ import annotations

import pprint
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from random import Random

from .case import Case
from .generate import random_case
from .shrink import failure, smallest


def look_at(seed: int) -> tuple[int, str | None]:
    return seed, failure(random_case(Random(seed)))


def told(seed: int, what: str, case: Case) -> Iterator[str]:
    yield f"seed {seed}: {what}"
    small = smallest(case)
    yield f"the smallest history with it ({small.count()} rows in {len(small.batches)} batches): {failure(small)}"
    for query in small.queries:
        yield f"-- {query.name}: {query.text} {dict(query.windows) or ''}"
    yield pprint.pformat(small, width=140)


def main(first: int, count: int, jobs: int = 1) -> int:
    began, bad = time.monotonic(), 0
    seeds = range(first, first + count)
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for seed, what in pool.map(look_at, seeds, chunksize=5) if jobs > 1 else map(look_at, seeds):
            if what is not None:
                bad += 1
                for line in told(seed, what, random_case(Random(seed))):
                    sys.stdout.write(line + "\n")
                sys.stdout.flush()
            elif seed % 100 == 99:
                sys.stderr.write(f"{seed + 1 - first} of {count}, {time.monotonic() - began:.0f} s\n")
            if bad == 10:
                break
    sys.stdout.write(f"{count} histories, {bad} wrong, {time.monotonic() - began:.0f} s\n")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
