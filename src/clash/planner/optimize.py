"""`clash.optimize`: queries and statistics in, a plan with a proven bound out."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import get_args

from clash.errors import OptionError
from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.planner.cost_model import CostModel, CostName, LayoutRule
from clash.planner.solver import Aside
from clash.planner.plan import Asked, Plan, WhatIf
from clash.planner.statistics_text import normal_statistics
from clash.planner.search_space import FormulationName, Options, StrategyName
from clash.planner.strategies import Job, independent, shared, together
from clash.sql import parse_queries

MOST_WORKERS = 10_000


def optimize(
    queries: Mapping[str, str],
    statistics: Statistics | None = None,
    *,
    streams: Iterable[Stream] | None = None,
    windows: Mapping[str, Mapping[str, str]] | None = None,
    workers: int = 4,
    strategy: StrategyName = "global",
    formulation: FormulationName = "compact",
    cost: CostName = "full",
    layouts: LayoutRule = "one",
    mirs: bool = True,
    time_limit: float = 10.0,
    gap: float = 0.0,
    start: Plan | None = None,
    aside: Aside | None = None,
) -> Plan:
    """The cheapest plan for all queries together.

    `time_limit` seconds bound the search: what is found by then is the answer, with the bound proven by then; 0 asks for the heuristic
    alone, which never waits for the solver. `gap` stops earlier, once the plan is provably within that share of the optimum. `start` is a
    plan to start from, such as the one that runs. `aside`: where the solver works, if not in this process.
    Without `streams`, schemas are read off the queries.
    """
    began = time.perf_counter()
    if start is not None and not isinstance(start, Plan):
        raise OptionError("start is not a plan", type(start).__name__, "give what clash.optimize returned")
    if windows is not None and not (isinstance(windows, Mapping) and all(isinstance(w, Mapping) for w in windows.values())):
        raise OptionError("windows are not a table", repr(windows), 'write windows={"q1": {"R": "5 seconds"}}')
    asked = _check(Statistics() if statistics is None else statistics, workers, strategy, formulation, cost, layouts, mirs, time_limit, gap)
    declared = None if streams is None else _by_name(streams)
    parsed, used = parse_queries(queries, declared, windows)
    asked = replace(asked, statistics=normal_statistics(asked.statistics, declared or used))
    asked = replace(asked, streams=declared or used, declared=declared is not None, windows=windows or {})
    return _plan(parsed, asked, began, start, aside)


def plan_nothing(
    streams: Iterable[Stream],
    statistics: Statistics | None,
    workers: int,
    strategy: StrategyName,
    cost: CostName,
    layouts: LayoutRule,
    mirs: bool,
) -> Plan:
    """The plan of a run that has no query at the time: nothing is stored or probed."""
    declared = _by_name(streams)
    asked = _check(normal_statistics(statistics or Statistics(), declared), workers, strategy, "compact", cost, layouts, mirs, 0.0, 0.0)
    asked = replace(asked, streams=declared, declared=True)
    return Plan((), asked, (), (), cost=0.0, bound=0.0, optimal=True, rounds=0, complete=True, seconds=0.0)


def replan(plan: Plan, **changes: object) -> Plan:
    """The same queries under other options."""
    return _plan(plan.queries, replace(plan.asked, **changes), time.perf_counter(), None)  # type: ignore[arg-type]


def with_query(plan: Plan, name: str, text: str) -> WhatIf:
    """One more query, planned on top of the plan: first the optimum from here, never worse than leaving the others as they are."""
    if any(query.name == name for query in plan.queries):
        raise OptionError("there is a query of that name already", repr(name), "give the new one another name")
    texts = {query.name: query.text for query in plan.queries} | {name: text}
    parsed, used = parse_queries(texts, dict(plan.asked.streams) if plan.asked.declared else None, plan.asked.windows)
    asked = replace(plan.asked, streams=plan.asked.streams if plan.asked.declared else used)
    alone = _plan(tuple(query for query in parsed if query.name == name), asked, time.perf_counter(), None)
    after = _plan(parsed, asked, time.perf_counter(), plan)
    return WhatIf(after, after.cost - plan.cost, alone.cost)


def _plan(queries: tuple[Query, ...], asked: Asked, began: float, start: Plan | None, aside: Aside | None = None) -> Plan:
    model = CostModel(asked.cost, asked.workers, asked.layouts)
    options = Options(model, asked.strategy, asked.formulation, asked.mirs, asked.gap, aside)
    job = Job(queries, asked.statistics, asked.streams, options, began + 0.95 * asked.time_limit)  # the rest is for writing the plan down
    if start is not None:
        job = replace(job, start=start.probe_orders, start_layouts={store.key: store.layouts for store in start.stores})
    result = {"independent": independent, "shared": shared, "global": together}[asked.strategy](job)
    return Plan(
        queries, asked, result.orders, result.stores, result.cost, result.bound, result.optimal, result.rounds, result.complete,
        time.perf_counter() - began, result.variables, result.rows,
    )  # fmt: skip


def _check(
    statistics: Statistics,
    workers: int,
    strategy: str,
    formulation: str,
    cost: str,
    layouts: str,
    mirs: bool,
    time_limit: float,
    gap: float,
) -> Asked:
    """Every option outside its range is named, with what may stand there."""
    if not isinstance(statistics, Statistics):
        raise OptionError("statistics are not a clash.Statistics", type(statistics).__name__, 'write clash.Statistics(rates={"R": 100})')
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= MOST_WORKERS:
        raise OptionError("the number of workers is out of range", repr(workers), f"write a whole number from 1 to {MOST_WORKERS:,}")
    for name, value, allowed in (
        ("strategy", strategy, get_args(StrategyName)),
        ("formulation", formulation, get_args(FormulationName)),
        ("cost model", cost, get_args(CostName)),
        ("layouts", layouts, get_args(LayoutRule)),
    ):
        if value not in allowed:
            raise OptionError(f"unknown {name}", repr(value), f"write one of {', '.join(allowed)}")
    for name, number, most in (("time_limit", time_limit, math.inf), ("gap", gap, 1.0)):
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= most:
            raise OptionError(
                f"{name} is out of range", repr(number), "write seconds, 0 or more" if name == "time_limit" else "write a share, 0 to 1"
            )
    if not isinstance(mirs, bool):
        raise OptionError("mirs is neither True nor False", repr(mirs), "write mirs=False to keep no intermediate results")
    limit = float(min(time_limit, 1e9))
    return Asked(statistics, {}, {}, False, workers, strategy, formulation, cost, layouts, mirs, limit, float(gap))  # type: ignore[arg-type]


def _by_name(streams: Iterable[Stream]) -> dict[str, Stream]:
    found: dict[str, Stream] = {}
    if not isinstance(streams, Iterable):
        raise OptionError("streams are not a list of streams", repr(streams), 'write streams=[clash.Stream.of("R", {"a": "bigint"})]')
    for stream in streams.values() if isinstance(streams, Mapping) else streams:
        if not isinstance(stream, Stream):
            raise OptionError("not a stream", repr(stream), 'write clash.Stream.of("R", {"a": "bigint"})')
        if stream.name in found:
            raise OptionError("two streams of one name", stream.name, "give one of them another name")
        found[stream.name] = stream
    return found
