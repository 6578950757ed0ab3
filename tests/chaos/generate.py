"""Random histories of actions: a seed is one history."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count
from random import Random

from clash.state.failpoints import NAMES

from ..oracle.case import Case, Change
from ..oracle.histories import random_history
from ..oracle.oracle import expect
from ..recovery import fitted
from .actions import (
    Action,
    Copy,
    Damage,
    Feed,
    FullDisk,
    History,
    KillAfter,
    KillAt,
    Pause,
    ReadOnlyDisk,
    Restore,
    Run,
    Stranger,
    Together,
)

PLACES = ("inprocess", "local", "cluster")
_SPARK_POINTS = frozenset({"before-handover", "after-handover", "before-sources", "between-sources"})
_TASK_POINTS = frozenset(name for name in NAMES if name.startswith(("ingest-", "round-")))
_MIN_BATCHES = 4


def chaos(seed: int, where: str = "inprocess", kinds: Collection[type[Action]] | None = None) -> History:
    """`kinds`: beside feeding and running, only these."""
    case = drawn_case(seed)
    return History(seed, where, case, random_actions(Random(f"{seed} {where}"), where, len(case.batches), kinds))


def random_actions(rng: Random, where: str, files: int, kinds: Collection[type[Action]] | None = None) -> tuple[Action, ...]:
    """In the end all files are fed, and read if nothing prevents it."""
    actions: list[Action] = []
    for _ in range(rng.randint(4, 10) if where == "inprocess" else rng.randint(3, 6)):
        if files and (not actions or rng.random() < 0.45):
            fed = rng.randint(1, min(3, files))
            files -= fed
            actions.append(Feed(fed))
        action = _possible(_action(rng, where), actions)
        if kinds is None or type(action) in kinds:
            actions.append(action)
        if isinstance(action, Damage | Restore):
            actions.append(Run())
    return (*actions, *([Feed(files)] if files else []), Run())


def _possible(action: Action, before: Sequence[Action]) -> Action:
    """There is nothing to damage or to copy before the first start, and nothing to restore before the first copy."""
    if isinstance(action, Damage | Copy | Restore | Stranger) and all(isinstance(one, Feed) for one in before):
        return Run()
    needs_copy = (isinstance(action, Restore) and action.part != "none") or (isinstance(action, Damage) and action.how == "older")
    return Copy() if needs_copy and not any(isinstance(one, Copy) for one in before) else action


@lru_cache(64)
def drawn_case(seed: int) -> Case:
    """A random history of tests/oracle that fits: with batches enough, and results in more than one of them."""
    for number in count(seed * 1000):
        if any(stream.time is None for stream in random_history(Random(number)).streams):
            continue
        case = fitted.history(number)
        if len(case.batches) < _MIN_BATCHES:
            continue
        case = replace(case, batches=case.batches[: Random(number).choice([_MIN_BATCHES, 5, 6, 8])])
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


def _action(rng: Random, where: str) -> Action:
    kinds = [Run, KillAt, KillAt, KillAfter, Pause, Together, Stranger, FullDisk, ReadOnlyDisk, Damage, Damage, Damage, Copy, Copy]
    kind = rng.choice([*kinds, Restore, Restore])
    moment = round(rng.random() * (0.6 if where == "inprocess" else 3.0), 3)
    if kind is Run:
        return Run(rng.choice([0, 0, -86_400, -3600, 3600, 10**8]))
    if kind is KillAt:
        points = NAMES - _SPARK_POINTS if where == "inprocess" else NAMES
        return KillAt(rng.choice(sorted(points)), rng.choice([1, 1, 2, 3]))
    if kind is KillAfter:
        return KillAfter(moment, "driver" if where == "inprocess" else rng.choice(_victims(where)))
    if kind is Pause:
        return Pause(moment)
    if kind is FullDisk:
        return FullDisk(rng.choice([0, 4, 8, 16, 32, 64]), rng.choice([0.0, moment]))
    if kind is ReadOnlyDisk:
        return ReadOnlyDisk(rng.choice([0.0, moment]))
    if kind is Damage:
        how = rng.choice(["flip", "flip", "digit", "cut", "delete", "older", "swap"])
        area = rng.choice(["checkpoint", "checkpoint", "results"] if where == "inprocess" else ["checkpoint", "spark", "spark", "results"])
        then, seconds = rng.choice(["undo", "undo", "anew"]), rng.choice([None, None, None, moment])
        return Damage(how, area, round(rng.random(), 6), round(rng.random(), 6), then, seconds)
    if kind is Copy:
        return Copy(rng.choice([None, moment]))
    if kind is Restore:
        part = rng.choice(["all", "all", "checkpoint", "results", "ours", "spark", "none"])
        return Restore(part, round(rng.random(), 6), rng.choice(["undo", "anew", "rollback"]))
    return kind()


def _victims(where: str) -> list[str]:
    return ["driver", "worker", "worker", *(["executor", "executor"] if where == "cluster" else [])]


def is_task_point(point: str) -> bool:
    return point in _TASK_POINTS
