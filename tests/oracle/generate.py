"""Random histories from one source of randomness: a seed, or hypothesis. In a `random_case` nothing changes while it runs."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from clash.model.statistics import Statistics
from clash.state.failpoints import NAMES

from .case import Ask, Batch, Case, Change, Setting
from .queries import random_queries
from .schemas import quiet_batches, random_batches, random_schema

_POINTS = sorted(NAMES - {"before-handover", "after-handover"})


def random_case(rng: Random, most_rows: int = 60, most_queries: int = 4) -> Case:
    schema = random_schema(rng)
    queries = random_queries(rng, schema, rng.randint(1, most_queries))
    case = Case(schema.streams, queries, (), _setting(rng, [s.name for s in schema.streams]))
    widest = max((len(query.aliases) for query in case.parsed), default=1)
    # the worst join multiplies all rows that share a hot key
    rows = min(rng.choice([3, 6, 10, 20, most_rows]), {1: 200, 2: 60, 3: 24, 4: 12}.get(widest, 6))
    batches = list(random_batches(rng, schema, rows))
    return replace(case, batches=tuple(_interrupted(rng, batch) for batch in batches))


def random_history(rng: Random, most_rows: int = 24) -> Case:
    """With queries that come and go, other plans, other numbers of workers: at any border of an epoch."""
    schema = random_schema(rng)
    kept = rng.choice([0.1, 0.1, 0.5, 1.0])
    schema = replace(schema, streams=tuple(replace(s, keep="all" if rng.random() < kept else "needed") for s in schema.streams))
    asks = random_queries(rng, schema, rng.randint(2, 6))
    first = asks[: rng.randint(1, 3)]
    setting = replace(_setting(rng, [s.name for s in schema.streams]), epoch=rng.choice([1, 1, 1, 2, 3]))
    if setting.strategy == "independent" and rng.random() < 0.5:
        setting = replace(setting, strategy="global")
    setting = replace(setting, options=(*setting.options, *_rewriting(rng)))
    case = Case(schema.streams, asks, (), setting)
    widest = max((len(query.aliases) for query in case.parsed), default=1)
    rows = min(rng.choice([3, 6, 10, most_rows]), {1: 60, 2: 40, 3: 20, 4: 12}.get(widest, 6))
    batches = list(random_batches(rng, schema, rows, rng.choice([3, 5, 8, 8, 12])))
    often, replanned = rng.choice([0.3, 0.6, 0.9]), rng.choice([0.0, 0.3, 0.8])
    live, workers = {ask.name: ask for ask in first}, setting.workers
    for at in range(1, len(batches)):
        changes: list[Change] = []
        while rng.random() < often and len(changes) < 3:
            change = _change(rng, asks, live, workers)
            workers = change.workers or workers
            live = after(change, live)
            changes.append(change)
        seed = rng.randrange(10**6) if rng.random() < replanned else None
        batches[at] = replace(batches[at], changes=tuple(changes), plan_seed=seed)
    batches = [_interrupted(rng, batch) for batch in batches]
    if rng.random() < 0.4:
        batches += quiet_batches(rng, schema, batches[-1], 4 + setting.epoch)
    case = replace(case, queries=first, batches=tuple(batches))
    return _filling(rng, case) if rng.random() < 0.25 else case


def _filling(rng: Random, case: Case) -> Case:
    """Nothing expires and little changes but one plan: its intermediate stores are filled with the past, a few tuples per batch."""
    streams = tuple(replace(stream, window=None, lateness=None, idle=None) for stream in case.streams)
    at = max(1, len(case.batches) // 3)
    batches = [
        replace(b, plan_seed=rng.randrange(10**6) if n == at else None, changes=b.changes if rng.random() < 0.2 else ())
        for n, b in enumerate(case.batches)
    ]
    options = {**dict(case.setting.options), "rewrite_rows": rng.choice([1, 2, 4])}
    return replace(case, streams=streams, batches=tuple(batches), setting=replace(case.setting, epoch=1, options=tuple(options.items())))


def _interrupted(rng: Random, batch: Batch) -> Batch:
    if rng.random() < 0.15:
        batch = replace(batch, restart=True)
    if rng.random() < 0.15:
        batch = replace(batch, fail=(rng.choice(_POINTS), rng.choice([1, 1, 1, 2, 3, 5])))
    return batch


_NAMES = [f"q{n}" for n in range(6)]


def _change(rng: Random, asks: tuple[Ask, ...], live: dict[str, Ask], workers: int) -> Change:
    """One that makes sense; the same text may be asked under two names, or a name have another text later."""
    kind = rng.choice(["add", "add", "add", "remove", "remove", "replace", "rescale"])
    free = [name for name in _NAMES if name not in live]
    if kind == "add" and free and len(live) < 4:
        ask = rng.choice(asks)
        name = ask.name if ask.name in free and rng.random() < 0.7 else rng.choice(free)
        return Change("add", replace(ask, name=name), history=rng.random() < 0.7)
    if kind in ("add", "remove") and len(live) > 1:
        return Change("remove", name=rng.choice(sorted(live)))
    if kind in ("remove", "replace"):
        return Change("replace", replace(rng.choice(asks), name=rng.choice(sorted(live))), history=rng.random() < 0.7)
    return Change("rescale", workers=rng.choice([n for n in range(1, 6) if n != workers]))


def after(change: Change, live: dict[str, Ask]) -> dict[str, Ask]:
    """What is asked for after a change."""
    if change.ask is not None:
        return {**live, change.ask.name: change.ask}
    return {name: ask for name, ask in live.items() if change.kind != "remove" or name != change.name}


def _rewriting(rng: Random) -> list[tuple[str, int]]:
    return [("rewrite_rows", rng.choice([1, 10]))] if rng.random() < 0.4 else []


def _setting(rng: Random, streams: list[str]) -> Setting:
    rates = {name: rng.choice([1.0, 10.0, 1e3, 1e5]) for name in streams}
    return Setting(
        workers=rng.choice([1, 2, 2, 3, 4, 5]),
        strategy=rng.choice(["independent", "shared", "global", "global"]),
        cost=rng.choice(["full", "probe"]),
        layouts=rng.choice(["one", "many"]),
        mirs=rng.random() < 0.8,
        statistics=Statistics(rates=rates, default_selectivity=rng.choice([1e-5, 1e-3, 0.1, 1.0])),
        partitions=rng.choice([1, 2, 3]),
        seed=rng.randrange(1000),
        timezone=rng.choice(["UTC", "UTC", "Europe/Berlin"]),
        plan_seed=rng.randrange(10**6) if rng.random() < 0.6 else None,
        options=_sizes(rng),
    )


def _sizes(rng: Random) -> tuple[tuple[str, int], ...]:
    """Small pieces and files, so that few rows are many of them."""
    found = []
    if rng.random() < 0.6:
        found.append(("piece", rng.choice([1, 2, 3, 7, 50])))
    if rng.random() < 0.3:
        found.append(("file_bytes", rng.choice([1, 200])))
    if rng.random() < 0.3:
        found.append(("merge_rows", rng.choice([1, 5, 20])))
    return tuple(found)
