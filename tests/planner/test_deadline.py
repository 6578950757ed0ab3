"""A time limit is a limit: past the deadline nothing is done but what an answer needs. The clock advances with every look at it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import clash
from clash.optimizer import validate
from clash.plan.logical import LogicalPlan
from clash.planner.build_graph import build_graph
from clash.planner.cost_model import CostModel
from clash.planner.deadline import Deadline
from clash.planner.insertion import QueryInserter
from clash.planner.optimize import plan_queries
from clash.planner.search_space import Options, build_space
from clash.planner.solver import LinearProgram, Settings, SolverResult, solve
from clash.sql import parse_queries

from .sets import chains
from .test_large import many_queries

LIMIT = 100.0
STRATEGIES = ("global", "shared", "independent")


class TickingClock:
    """Every look at it takes a moment, and so do solving, and building a graph: `events` counts what begins past the limit."""

    def __init__(self, tick: float) -> None:
        self.now, self.tick = 0.0, tick
        self.events: Counter[str] = Counter()

    def __call__(self) -> float:
        self.now += self.tick
        return self.now

    def counted(self, name: str, call: Callable[..., Any], seconds: float = 0.0) -> Callable[..., Any]:
        def wrapper(*args: Any, **options: Any) -> Any:
            self.events[name] += self.now > LIMIT
            self.now += seconds
            return call(*args, **options)

        return wrapper


def _solve_quickly(program: LinearProgram, settings: Settings) -> SolverResult:
    return solve(program, {**settings, "time_limit": min(0.2, float(settings["time_limit"]))})


def plan_with(monkeypatch: pytest.MonkeyPatch, clock: TickingClock, plan: LogicalPlan, strategy: str) -> LogicalPlan:
    with monkeypatch.context() as patch:
        patch.setattr("clash.planner.integer_program.solve", clock.counted("solver", _solve_quickly, 5.0))
        patch.setattr("clash.planner.search_space.build_graph", clock.counted("graph", build_graph, 1.0))
        patch.setattr(QueryInserter, "insert", clock.counted("insert", QueryInserter.insert))
        request = replace(plan.request, time_limit=LIMIT, strategy=strategy)  # type: ignore[arg-type]
        return plan_queries(plan.queries, request, clock=clock)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("cost", ["probe", "full"])
@pytest.mark.parametrize("tick", [0.5, 5.0, 50.0, 1000.0])
def test_nothing_begins_past_the_limit_but_what_an_answer_needs(
    monkeypatch: pytest.MonkeyPatch, strategy: str, cost: str, tick: float
) -> None:
    texts, statistics = chains(4, 6, (3, 4))
    plan = clash.optimize(texts, statistics, cost=cost, time_limit=0.0)  # type: ignore[arg-type]
    clock = TickingClock(tick)
    found = plan_with(monkeypatch, clock, plan, strategy)
    validate(found)
    assert 0 <= found.bound <= found.cost
    queries = len(found.queries)
    assert clock.events["solver"] == 0
    assert clock.events["graph"] <= (1 if strategy == "global" else queries + 1)
    assert clock.events["insert"] <= (1 if strategy == "global" else 2) * queries + 1


@pytest.mark.parametrize("tick", [1.0, 5.0, 20.0])
def test_large_queries_get_a_smaller_space_where_time_is_short(monkeypatch: pytest.MonkeyPatch, tick: float) -> None:
    texts, statistics, streams = many_queries(3, 10, 11)
    plan = clash.optimize(texts, statistics, streams=streams, time_limit=0.0)
    clock = TickingClock(tick)
    found = plan_with(monkeypatch, clock, plan, "global")
    validate(found)
    assert not found.complete
    assert clock.events["solver"] == 0
    assert clock.events["graph"] <= 1
    assert clock.events["insert"] <= len(found.queries) + 1


def test_a_share_of_the_time() -> None:
    now = 10.0
    deadline = Deadline(20.0, lambda: now)
    assert (deadline.left, deadline.passed) == (10.0, False)
    assert deadline.share(0.3).at == 13.0
    assert deadline.within(5.0).at == 15.0
    assert deadline.within(50.0).at == 20.0
    assert deadline.earlier(12.0).passed
    assert deadline.earlier(12.0).left == 0.0
    assert deadline.earlier(12.0).share(0.5).passed
    assert Deadline(math.inf, lambda: now).share(0.5).left == math.inf


def test_the_search_space_fits_the_time() -> None:
    texts, statistics, streams = many_queries(4, 10, 11)
    queries, used = parse_queries(texts, {stream.name: stream for stream in streams})
    options = Options(CostModel("full", 4, "one"))
    sizes = []
    for seconds in (0.0, 1.0, 100.0):
        space = build_space(queries, statistics, used, options, Deadline(seconds, lambda: 0.0))
        sizes.append(len(space.graph.arcs))
    assert sizes[0] < sizes[1] < sizes[2]
    assert sizes[2] == len(build_space(queries, statistics, used, options).graph.arcs)
