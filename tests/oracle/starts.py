"""The engine that a history starts with, and random plans for what it asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from unittest.mock import patch

import clash
from clash.coordinator.control.setup import Setup
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash.optimizer import Plan
from clash.planner import solve, strategies

from .case import Ask, Case, table
from .plans import random_plan


@contextmanager
def quick_planner() -> Iterator[None]:
    """The planner searches less: plans need not be good here. It counts moves and never looks at the clock: a seed is one history."""
    moves = solve._moves
    few_moves = patch.object(solve, "_moves", lambda *arguments: min(4, moves(*arguments)))
    with few_moves, patch.object(strategies, "HEURISTIC_SECONDS", 60.0):
        yield


def start(case: Case) -> InProcessEngine:
    setting = case.setting
    return InProcessEngine(
        case.first_streams, case.texts, workers=setting.workers, strategy=setting.strategy, cost=setting.cost, layouts=setting.layouts,
        mirs=setting.mirs, statistics=setting.statistics, windows=case.windows, partitions=setting.partitions, seed=setting.seed,
        plan=None if setting.plan_seed is None else plan_of(case), timezone=setting.timezone, tuning=dict(setting.options),
        epoch=setting.epoch, adaptive=setting.adaptive,
        tables={name: table(case.by_name[name], rows) for name, rows in (case.batches[0].tables if case.batches else {}).items()},
    )  # fmt: skip


def plan_of(case: Case) -> Plan:
    """The random plan that its setting names."""
    asks = {ask.name: ask for ask in case.queries}
    owned = alone(case) if case.changes else None
    return plan_for(case, asks, case.first_streams, case.setting.workers, case.setting.plan_seed, owned)


def alone(case: Case) -> float:
    """Stores that belong to a query stay with it: no plan moves their rows to others."""
    return 1.0 if case.setting.strategy == "independent" else 0.0


def plan_over(case: Case, setup: Setup, seed: int | None) -> Plan:
    """A random plan for a set-up. A live query may read fewer columns than its text would now."""
    base = Plan.of(replace(setup, strategy="independent", cost="probe", mirs=False).optimize(None))
    plan = random_plan(Random(seed), base, alone(case))
    return replace(plan, request=replace(plan.request, strategy=case.setting.strategy))


def plan_for(case: Case, asks: Mapping[str, Ask], streams: Sequence[Stream], workers: int, seed: int | None, owned: float | None) -> Plan:
    base = clash.optimize(
        {name: ask.text for name, ask in asks.items()}, streams=streams,
        windows={name: dict(ask.windows) for name, ask in asks.items() if ask.windows}, workers=workers,
        strategy="independent", cost="probe", mirs=False, time_limit=0.0,
    )  # fmt: skip
    plan = random_plan(Random(seed), base, owned)
    return replace(plan, request=replace(plan.request, strategy=case.setting.strategy))
