"""Random histories of actions: a seed is one history."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random

from clash.state.failpoints import NAMES

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
from .cases import drawn_case

PLACES = ("inprocess", "local", "cluster")
# those that are left out need sinks or tables of their own
_POINTS = frozenset(name for name in NAMES if not name.endswith(("-transaction", "-outer-sink", "-table-files")))
_SPARK_POINTS = frozenset({"before-handover", "after-handover", "before-sources", "between-sources"})
_TASK_POINTS = frozenset(name for name in NAMES if name.startswith(("ingest-", "round-")))
HISTORIES_PER_CASE = 4  # making one, and what it must give, takes as long as to play it


def chaos(seed: int, where: str = "inprocess", kinds: Collection[type[Action]] | None = None) -> History:
    """`kinds`: beside feeding and running, only these."""
    number = seed // HISTORIES_PER_CASE
    files = len(drawn_case(number).batches)
    return History(seed, where, number, random_actions(Random(f"{seed} {where}"), where, files, kinds))


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


def _action(rng: Random, where: str) -> Action:
    kinds = [Run, KillAt, KillAt, KillAfter, Pause, Together, Stranger, FullDisk, ReadOnlyDisk, Damage, Damage, Damage, Copy, Copy]
    kind = rng.choice([*kinds, Restore, Restore])
    moment = round(rng.random() * (0.6 if where == "inprocess" else 3.0), 3)
    if kind is Run:
        return Run(rng.choice([0, 0, -86_400, -3600, 3600, 10**8]))
    if kind is KillAt:
        points = _POINTS - _SPARK_POINTS if where == "inprocess" else _POINTS
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
        area = rng.choice(["checkpoint", *(["checkpoint", "spark"] if where == "inprocess" else ["spark", "spark"]), "results"])
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
