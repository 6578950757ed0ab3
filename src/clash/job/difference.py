"""A job file against the checkpoint of its job: what a start would change, and what new queries would cost. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from clash.coordinator.checkpoint.batch_decision import read_decision
from clash.coordinator.checkpoint.source_registry import is_new
from clash.coordinator.control.job import JobSpec, OuterRequest, QueryRequest, SinkSpec
from clash.coordinator.control.restart import setup_after_restart
from clash.coordinator.control.setup import Setup, differences
from clash.coordinator.what_if import compare_plans, plan_addition
from clash.job.declared import Declared
from clash.job.load import JobFile
from clash.model.outer_query import OutputMode
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.operations.opened_checkpoint import open_checkpoint
from clash.plan.logical import LogicalPlan
from clash.spark.declarations import declare_query
from clash.sql import parse_query
from clash.state.paths import absolute_location
from clash.state.storage import open_storage


@dataclass(frozen=True)
class QueryCost:
    """What a new query would add, planned by the heuristic with what is known of the data; in units of the plan's cost model."""

    query: str
    marginal: float
    before: float
    """The cost of the plan without it."""
    alone: float
    new_stores: tuple[str, ...]


@dataclass
class Difference:
    is_first_start: bool
    changes: list[str] = field(default_factory=list)
    costs: list[QueryCost] = field(default_factory=list)
    unpriced: dict[str, str] = field(default_factory=dict)
    """By query, why its cost is not known."""

    def to_data(self) -> dict[str, Any]:
        return asdict(self)


def compare_with_checkpoint(file: JobFile, declared: Declared) -> Difference:
    """Raises what a start would refuse, without values of variables."""
    with file.at():
        return _compare(file, declared)


def _compare(file: JobFile, declared: Declared) -> Difference:
    location = absolute_location(file.checkpoint)
    if is_new(open_storage(f"{location}/clash")):
        return _first_start(file, declared)
    opened = open_checkpoint(location)
    decision = read_decision(opened.storage, opened.manifest.batch + 1)
    last = opened.log.read(opened.manifest.generation if decision is None else decision.generation)
    streams, unknown = _known_streams(file, declared, last.setup)
    requests = _requests(
        file, declared, streams, {live.name: live.request for live in last.setup.queries} | {q.name: q for q in last.program.queries}
    )
    job = _job(file, declared, streams, requests)
    after = setup_after_restart(last.setup, last.program, job, location, opened.log.read(opened.manifest.generation).setup)
    difference = Difference(False, differences(last.setup, after))
    difference.unpriced = {name: declared.unchecked[name] for name in declared.unchecked if name not in requests}
    difference.changes += [f"query {name} added or replaced" for name in difference.unpriced] + [f"stream {name} added" for name in unknown]
    statistics = declared.statistics or last.plan.request.statistics
    difference.costs = _costs(last.setup, after, statistics, last.plan)
    return difference


def _first_start(file: JobFile, declared: Declared) -> Difference:
    requests = _requests(file, declared, declared.streams, {})
    setup = Setup.of(_job(file, declared, declared.streams, requests))
    difference = Difference(
        True, [f"query {name} added" for name in file.job.queries] + [f"stream {name} added" for name in file.job.streams]
    )
    difference.unpriced = dict(declared.unchecked)
    difference.costs = _costs(replace(setup, queries=()), setup, declared.statistics, None)
    return difference


def _known_streams(file: JobFile, declared: Declared, running: Setup) -> tuple[dict[str, Stream], list[str]]:
    """The streams of the file, with recorded columns where it has none; and those whose columns are not known at all."""
    streams, unknown = dict(declared.streams), []
    for name in declared.without_schema:
        spec, recorded = file.job.streams.get(name), running.streams_by_name.get(name)
        if recorded is None:
            unknown.append(name)
        elif spec is None:  # a table
            streams[name] = recorded
        else:
            options: dict[str, Any] = {"window": spec.window, "lateness": spec.lateness, "idle": spec.idle, "keep": spec.keep}
            streams[name] = replace(recorded, time=spec.time).with_options(**options)
    return {name: streams[name] for name in (*file.job.streams, *file.job.tables) if name in streams}, unknown


def _requests(
    file: JobFile, declared: Declared, streams: Mapping[str, Stream], recorded: Mapping[str, QueryRequest]
) -> dict[str, QueryRequest]:
    """The queries as a program would declare them. What Spark computes for a query is known if it is recorded."""
    requests = {}
    for name, text in declared.queries.items():
        query = file.job.queries[name]
        request = declare_query(name, text, declared.sinks[name], query.windows or None)
        was = recorded.get(name)
        if was is not None and was.meaning[:2] == request.meaning[:2]:
            mode: OutputMode | None = None if was.outer is None else query.mode or "complete"
            request = replace(request, computed=was.computed)
            requests[name] = request if mode is None else _with_outer(request, mode)
        elif name not in declared.unchecked:
            is_outer = parse_query(name, text, streams, query.windows or None).outer is not None
            requests[name] = _with_outer(request, query.mode or "complete") if is_outer else request
    return requests


def _with_outer(request: QueryRequest, mode: OutputMode) -> QueryRequest:
    return replace(request, sink=SinkSpec("outer"), outer=OuterRequest(mode, request.sink))


def _job(file: JobFile, declared: Declared, streams: Mapping[str, Stream], requests: Mapping[str, QueryRequest]) -> JobSpec:
    options = file.job.engine
    return JobSpec(
        tuple(streams.values()), tuple(requests.values()), options.workers, options.strategy, options.cost, options.layouts, options.mirs,
        declared.statistics, options.epoch, options.adaptive,
    )  # fmt: skip


def _costs(before: Setup, after: Setup, statistics: Statistics | None, running: LogicalPlan | None) -> list[QueryCost]:
    """New queries one after the other, each beside those that stay and those before it."""
    stays = {live.name: live for live in after.queries if live in before.queries or _same(before, live.name, after)}
    base = replace(after, queries=tuple(stays.values()))
    start = running if running is not None and base.fits(running) else None
    costs = []
    for live in after.queries:
        if live.name in stays:
            continue
        longer = replace(base, queries=(*base.queries, live))
        _, plan_before, plan, alone = plan_addition(base, longer, live.name, statistics, start)
        stores, _ = compare_plans(plan_before, plan, live.name)
        cost_before = 0.0 if plan_before is None else plan_before.cost
        new = tuple(store.name for store in stores if store.is_new)
        costs.append(QueryCost(live.name, plan.cost - cost_before, cost_before, alone.cost, new))
        base, start = longer, plan
    return costs


def _same(before: Setup, name: str, after: Setup) -> bool:
    return name in before.query_names and before.query(name).request.meaning == after.query(name).request.meaning
