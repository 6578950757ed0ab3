"""Random histories from one source of randomness: a seed, or hypothesis. In a `random_case` nothing changes while it runs."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from clash.model.statistics import Statistics
from clash.state.failpoints import NAMES

from .case import Batch, Case, Setting
from .queries import random_queries
from .schemas import Schema, random_batches, random_schema

_OTHERS = ("-handover", "-sources", "-transaction", "-sink", "-files")  # those are Spark's, or of tables
POINTS = sorted(name for name in NAMES if not name.endswith(_OTHERS))


def random_case(rng: Random, most_rows: int = 60, most_queries: int = 4, siblings: float = 0.0) -> Case:
    schema = random_schema(rng)
    queries = random_queries(rng, schema, rng.randint(1, most_queries), siblings)
    case = Case(schema.streams, queries, (), random_setting(rng, schema))
    widest = max((len(query.aliases) for query in case.parsed), default=1)
    # the worst join multiplies all rows that share a hot key
    rows = min(rng.choice([3, 6, 10, 20, most_rows]), {1: 200, 2: 60, 3: 24, 4: 12}.get(widest, 6))
    batches = list(random_batches(rng, schema, rows))
    return replace(case, batches=tuple(interrupted(rng, batch) for batch in batches))


def interrupted(rng: Random, batch: Batch) -> Batch:
    if rng.random() < 0.15:
        batch = replace(batch, restart=True)
    if rng.random() < 0.15:
        batch = replace(batch, fail=(rng.choice(POINTS), rng.choice([1, 1, 1, 2, 3, 5])))
    return batch


def random_setting(rng: Random, schema: Schema) -> Setting:
    rates = {name: rng.choice([1.0, 10.0, 1e3, 1e5]) for name in [stream.name for stream in schema.streams]}
    return Setting(
        workers=rng.choice([1, 2, 2, 3, 4, 5]),
        strategy=rng.choice(["independent", "shared", "global", "global"]),
        cost=rng.choice(["full", "probe"]),
        layouts=rng.choice(["one", "many"]),
        mirs=rng.random() < 0.8,
        statistics=Statistics(rates=rates, default_selectivity=rng.choice([1e-5, 1e-3, 0.1, 1.0])),
        partitions=rng.choice([1, 2, 3]),
        seed=rng.randrange(1000),
        timezone=schema.zone,
        plan_seed=rng.randrange(10**6) if rng.random() < 0.6 else None,
        options=_sizes(rng),
    )


def _sizes(rng: Random) -> tuple[tuple[str, int], ...]:
    """Small pieces and files, so that few rows are many of them."""
    found = []
    if rng.random() < 0.6:
        found.append(("block_rows", rng.choice([1, 2, 3, 7, 50])))
    if rng.random() < 0.3:
        found.append(("file_bytes", rng.choice([1, 200])))
    if rng.random() < 0.3:
        found.append(("merge_rows", rng.choice([1, 5, 20])))
    if rng.random() < 0.6:  # otherwise few rows are always one container
        found.append(("container_cost", rng.choice([0, 500, 2000])))
    return tuple(found)
