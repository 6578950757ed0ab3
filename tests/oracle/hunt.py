"""Thousands of random histories: `python -m tests.oracle.hunt FIRST COUNT [JOBS] [--changes]`. For each one that goes wrong: its seed,
what is wrong, and the smallest history that shows it, as Python. With `--changes` queries come and go, and plans and workers change;
streams as well in every other history, or in all of them with `--streams`. With `--tables` some streams are tables instead; with
`--families` most queries differ in constants and windows only."""

from __future__ import annotations

import pprint
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from random import Random

from .case import Case
from .evolution import evolving_history
from .families import family_history
from .generate import random_case
from .histories import random_history
from .shrink import failure, smallest
from .tables import with_tables


def drawn(seed: int, changes: bool = False, streams: bool = False, tables: bool = False, families: bool = False) -> Case:
    if families:
        return family_history(Random(seed), changes)
    if tables:
        rng = Random(seed)
        return with_tables(rng, (random_history if changes else random_case)(rng))
    if streams or (changes and seed % 2):
        return evolving_history(Random(seed))
    return (random_history if changes else random_case)(Random(seed))


def look_at(
    seed: int, changes: bool = False, streams: bool = False, tables: bool = False, families: bool = False
) -> tuple[int, str | None]:
    return seed, failure(drawn(seed, changes, streams, tables, families))


def report(seed: int, what: str, case: Case) -> Iterator[str]:
    yield f"seed {seed}: {what}"
    small = smallest(case)
    yield f"the smallest history with it ({small.count()} rows in {len(small.batches)} batches): {failure(small)}"
    for query in small.asks:
        yield f"-- {query.name}: {query.text} {dict(query.windows) or ''}"
    yield pprint.pformat(small, width=140)


def main(first: int, count: int, jobs: int = 1, **flags: bool) -> int:
    began, bad = time.monotonic(), 0
    seeds, look = range(first, first + count), partial(look_at, **flags)
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for seed, what in pool.map(look, seeds, chunksize=5) if jobs > 1 else map(look, seeds):
            if what is not None:
                bad += 1
                for line in report(seed, what, drawn(seed, **flags)):
                    sys.stdout.write(line + "\n")
                sys.stdout.flush()
            elif seed % 100 == 99:
                sys.stderr.write(f"{seed + 1 - first} of {count}, {time.monotonic() - began:.0f} s\n")
            if bad == 10:
                break
    sys.stdout.write(f"{count} histories, {bad} wrong, {time.monotonic() - began:.0f} s\n")
    return min(bad, 1)


if __name__ == "__main__":
    flags = {name: f"--{name}" in sys.argv for name in ("changes", "streams", "tables", "families")}
    sys.exit(main(*(int(word) for word in sys.argv[1:] if not word.startswith("--")), **flags))
