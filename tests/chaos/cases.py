"""The streams, rows, queries and changes of a history: random ones of tests/oracle, made fit for Spark by tests/recovery/fitted.py."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import count
from random import Random

from ..oracle.case import Case, Change
from ..oracle.histories import random_history
from ..oracle.oracle import expect
from ..recovery import fitted

_MIN_BATCHES = 4


@lru_cache(64)
def drawn_case(seed: int) -> Case:
    """One with batches enough, and results in more than one of them."""
    for number in count(seed * 1000):
        drawn = random_history(Random(number))
        if any(stream.time is None for stream in drawn.streams):
            continue
        case = fitted.fitted(drawn, number)
        if len(case.batches) < _MIN_BATCHES:
            continue
        case = replace(case, batches=case.batches[: Random(number).choice([_MIN_BATCHES, 5, 6])])
        results = expect(case, fitted.lives(case)).results.values()
        if len({batch for found in results for batch, _ in found}) >= 2:
            rng = Random(seed)
            return _with_later_streams(rng, _with_skew(rng, _with_fewer_plans(rng, case)))
    raise AssertionError("there is no end of seeds")


def _with_fewer_plans(rng: Random, case: Case) -> Case:
    """Most batches keep the plan: making one takes longer than running them."""
    return replace(case, batches=tuple(b if rng.random() < 0.3 else replace(b, plan_seed=None) for b in case.batches))


def _with_skew(rng: Random, case: Case) -> Case:
    """In some batches one row of a stream comes many times: its keys are hot, and in another batch others are."""
    batches = []
    for batch in case.batches:
        some = [name for name, rows in batch.rows.items() if rows]
        if some and rng.random() < 0.3:
            name = rng.choice(some)
            batch = replace(batch, rows={**batch.rows, name: (*batch.rows[name], *[rng.choice(batch.rows[name])] * rng.randint(1, 4))})
        batches.append(batch)
    return replace(case, batches=tuple(batches))


def _with_later_streams(rng: Random, case: Case) -> Case:
    """At times a stream that no first query reads is declared while the program runs, before the first query that reads it."""
    read = frozenset().union(*(case.reads(ask) for ask in case.queries))
    later = [stream.name for stream in case.streams if stream.name not in read and rng.random() < 0.6]
    batches = list(case.batches)
    for name in later:
        needed = [at for at, batch in enumerate(batches) if any(c.ask is not None and name in case.reads(c.ask) for c in batch.changes)]
        at = rng.randint(1, min(needed, default=len(batches) - 1))
        batches[at] = replace(batches[at], changes=(Change("stream", name=name), *batches[at].changes))
    return replace(case, batches=tuple(batches))
