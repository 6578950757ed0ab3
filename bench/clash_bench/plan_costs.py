"""The cost model against the clock: the plans that look best are run, and their CPU seconds compared with what the model says of them.

All plans answer the same queries over the same batches, in process, with state and results on disk. Rounds of several plans alternate, so
that a machine that gets slower or faster does so for all; the best run of each counts.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from clash.cli.row_content import Content, file_content
from clash.coordinator.adaptive.plan_pricing import price_plan
from clash.coordinator.batch_loop import run_batch
from clash.errors import ClashError
from clash.inprocess.engine import InProcessEngine
from clash.model.relation import Relation
from clash.optimizer import Plan, optimize
from clash.plan.logical import LogicalPlan
from clash.planner.cost_model import CostModel, Weights
from clash.planner.deadline import NEVER
from clash.planner.extract_orders import probe_orders, store_plans
from clash.planner.graph import Graph
from clash.planner.heuristic import HeuristicSearch
from clash.planner.search_space import Options, build_space
from clash.protocol.batch import BATCH_SPEC, BatchSpec
from clash.protocol.reports import Report
from clash.workers.stored_container import close_files_except
from clash.workers.whole_batch import run_whole_batch
from clash_bench.statistics import spearman
from clash_bench.tables import note, write
from clash_bench.tpch_data import DATA, tpch_data
from clash_bench.tpch_duckdb import measure_duckdb
from clash_bench.tpch_queries import first_queries, tpch_statistics, tpch_streams

WORKERS = 2
MOVES = 20  # of the heuristic, per candidate
CANDIDATES_PER_PLAN = 5  # searches per plan that is wanted: most find one that is known already
WEIGHT_RANGE = 1.2  # decades by which the weights of a search may differ from the model's
SAME_COST = 0.003  # plans whose predicted costs differ by less differ in nothing that counts
# what the differential-dataflow program of docs/design/2026-11-18-large-batches.md keeps besides the streams
PEER = (("supplier", "partsupp"), ("part", "partsupp"), ("supplier", "part", "partsupp"), ("lineitem", "orders"))
PARTS = ("send", "probe", "insert", "memory")  # of the model's cost, by weight


@dataclass(frozen=True)
class PlanCost:
    """A line of the CSV file: one plan."""

    queries: int
    scale: float
    plan: str
    """`chosen`: the planner's own; `peer`: with the intermediate results of the peer; otherwise a number."""
    mirs: int
    """The intermediate results that it keeps."""
    rounds: int
    predicted: float
    """By the model, without the cost of rounds, which only Spark has."""
    send: float
    """Tuples that the model charges for sending; the next three likewise."""
    probe: float
    insert: float
    memory: float
    cpu_seconds: float
    """Of all tasks, the best of several runs."""
    worst_seconds: float
    stored_rows: int


def run(queries: int = 5, scale: float = 0.1, batches: int = 10, plans: int = 20, repeat: int = 3, data: Path = DATA,
        out: Path = Path("bench/results")) -> None:  # fmt: skip
    """The options are those of the command `plans`."""
    texts = first_queries(queries)
    tables = tpch_data(scale, batches, data)
    candidates = find_plans(texts, scale, plans)
    costs = [plan.cost for _, plan in candidates]
    note(f"{len(candidates)} plans of {queries} queries, predicted to cost up to {max(costs) / min(costs):.2f}× the best")
    loaded = [{name: table.combine_chunks() for name, table in tables.batch(number).items()} for number in range(tables.batches)]
    with TemporaryDirectory(prefix="clash-duckdb-") as folder:
        expected = measure_duckdb(tables, texts, Path(folder)).contents
    seconds: dict[str, list[float]] = {name: [] for name, _ in candidates}
    stored: dict[str, int] = {}
    for number in range(repeat):
        for name, plan in candidates if number % 2 == 0 else candidates[::-1]:
            cpu, stored[name], contents = _measure(plan, texts, loaded)
            if contents != expected:
                raise ClashError("results differ from DuckDB's", f"plan {name}", "this is a bug of ours")
            seconds[name].append(cpu)
        rows = [_row(name, plan, queries, scale, seconds[name], stored[name]) for name, plan in candidates]
        write(out / f"plan-costs-{queries}.csv", PlanCost, rows)  # what is measured is kept if a later run fails
        note(f"run {number + 1} of all plans: {sum(times[-1] for times in seconds.values()):.1f} s")
    _report(rows)


def _report(rows: Sequence[PlanCost]) -> None:
    costs, measured = [row.predicted for row in rows], [row.cpu_seconds for row in rows]
    note(f"rank correlation of the predicted cost with CPU seconds: {spearman(costs, measured):.3f}, of {len(rows)} plans")
    fitted = fit_weights(rows)
    note("weights fitted to the clock, with `send` as 1: " + ", ".join(f"{part} {value:.2f}" for part, value in fitted.items()))
    by_fit = [sum(fitted[part] * getattr(row, part) for part in PARTS) for row in rows]
    note(f"rank correlation with these: {spearman(by_fit, measured):.3f}")
    fastest = min(measured)
    for row in sorted(rows, key=lambda row: row.cpu_seconds):
        note(f"{row.plan:>7}: {row.cpu_seconds:.2f} s ({row.cpu_seconds / fastest:.2f}×), predicted {row.predicted:,.0f}, {row.mirs} MIRs")


def fit_weights(rows: Sequence[PlanCost]) -> dict[str, float]:
    """The weights under which the model's parts come nearest to the measured seconds, besides what all plans have in common."""
    parts = np.array([[getattr(row, part) for part in PARTS] for row in rows])
    seconds = np.array([row.cpu_seconds for row in rows])
    best, least = np.zeros(len(PARTS)), math.inf
    for used in product([False, True], repeat=len(PARTS)):  # a weight is not negative: the parts that would have one are left out
        columns = np.column_stack([parts[:, used], np.ones(len(rows))])
        found, *_ = np.linalg.lstsq(columns / columns.max(axis=0), seconds)
        error = float(((columns / columns.max(axis=0)) @ found - seconds) @ ((columns / columns.max(axis=0)) @ found - seconds))
        if (found >= 0).all() and error < least:
            best, least = np.zeros(len(PARTS)), error
            best[list(used)] = found[:-1] / columns.max(axis=0)[:-1]
    unit = best[0] or best.max() or 1.0
    return dict(zip(PARTS, (best / unit).tolist(), strict=True))


# ---- plans ------------------------------------------------------------


def find_plans(texts: Mapping[str, str], scale: float, count: int) -> list[tuple[str, Plan]]:
    """The planner's choice, the peer's plan where there is one, and the cheapest others, by the model."""
    chosen = optimize(texts, tpch_statistics(scale), streams=tpch_streams(texts), workers=WORKERS, time_limit=20.0)
    chosen = replace(chosen, cost=_price(chosen, Weights(round=0.0)))
    peer = _searched(chosen, Weights(probe=5.0, insert=0.01, memory=0.0), 0, PEER)
    found = [("chosen", chosen), *([("peer", peer)] if _keeps(peer, PEER) else [])]
    for plan in sorted(_variants(chosen, count * CANDIDATES_PER_PLAN), key=lambda plan: plan.cost):
        if len(found) < count and all(abs(plan.cost / other.cost - 1) > SAME_COST for _, other in found):
            found.append((str(len(found)), plan))
    return sorted(found, key=lambda named: named[1].cost)


def _variants(chosen: Plan, count: int) -> Iterator[Plan]:
    """Plans that searches under other weights find."""
    rng = random.Random(1)
    for seed in range(count):
        weights = {part: getattr(Weights(), part) * 10 ** rng.uniform(-WEIGHT_RANGE, WEIGHT_RANGE) for part in PARTS}
        yield _searched(chosen, Weights(**weights, round=Weights().round * rng.choice([0.0, 1.0])), seed)


def _searched(chosen: Plan, weights: Weights, seed: int, mirs: Sequence[Sequence[str]] | None = None) -> Plan:
    """What a search under these weights finds, with the cost that the model gives it. `mirs`: the only intermediate results that it may
    keep, for nothing."""
    request = chosen.request
    model = CostModel(request.cost, request.workers, request.layouts, weights)
    graph = build_space(chosen.queries, request.statistics, chosen.streams, Options(model)).graph
    if mirs is not None:
        _allow_only(graph, mirs)
    search = HeuristicSearch(graph, graph.lattice.targets, seed)
    solution = search.run(MOVES, NEVER)
    plan = replace(
        chosen, probe_orders=probe_orders(graph, solution), stores=store_plans(graph, solution), rounds=solution.rounds, optimal=False
    )
    return replace(plan, cost=_price(plan, Weights(round=0.0)), bound=0.0)


def _price(plan: Plan, weights: Weights) -> float:
    cost = price_plan(plan, plan.request.statistics, weights)
    if cost is None:
        raise ClashError("a plan cannot be priced", "its orders are not in the search space", "this is a bug of the benchmark")
    return cost


def _allow_only(graph: Graph, mirs: Sequence[Sequence[str]]) -> None:
    allowed = {frozenset(map(Relation, mir)) for mir in mirs}
    for store in graph.stores:
        if store.sub is not None:
            is_allowed = frozenset(graph.lattice.subs[store.sub].relations) in allowed
            store.costs = [0.0 if is_allowed else 1e15 for _ in store.costs]


def _keeps(plan: LogicalPlan, mirs: Sequence[Sequence[str]]) -> bool:
    kept = {frozenset(store.key.join.relations) for store in plan.stores if store.key.join is not None}
    return kept == {frozenset(map(Relation, mir)) for mir in mirs}


# ---- measuring ------------------------------------------------------------


class _Halves:
    """A transport in this process: an ingest task per half of every table, then a task per worker and round, and the CPU time of all."""

    def __init__(self, engine: InProcessEngine, tables: Mapping[str, pa.Table]) -> None:
        self.engine, self.tables, self.cpu = engine, tables, 0.0

    def run(self, spec: BatchSpec) -> list[Report]:
        plan = self.engine.coordinator.loaded_plan
        spec = BATCH_SPEC.loads(BATCH_SPEC.dumps(spec))
        partitions = [
            [
                (name, batch)
                for name, table in self.tables.items()
                if name in plan.ingest
                for batch in _half(table.select([column.name for column in plan.ingest[name].columns]), part, spec.partitions).to_batches()
            ]
            for part in range(spec.partitions)
        ]
        began = time.process_time()
        reports = run_whole_batch(spec, partitions)
        self.cpu += time.process_time() - began
        return reports


def _half(table: pa.Table, part: int, parts: int) -> pa.Table:
    start, end = table.num_rows * part // parts, table.num_rows * (part + 1) // parts
    return table.slice(start, end - start)


def _measure(plan: Plan, texts: Mapping[str, str], batches: Sequence[Mapping[str, pa.Table]]) -> tuple[float, int, Mapping[str, Content]]:
    """CPU seconds of all tasks, the rows of all stores in the end, and the results."""
    with TemporaryDirectory(prefix="clash-plans-") as folder:
        engine = InProcessEngine(tpch_streams(texts), texts, workers=WORKERS, plan=plan, uri=f"{folder}/checkpoint", epoch="1 hour")
        cpu, rows = 0.0, 0
        for number, tables in enumerate(batches):
            halves = _Halves(engine, tables)
            committed = run_batch(engine.coordinator, halves, number, (number + 1) * 1_000_000, WORKERS)
            cpu += halves.cpu
            rows = sum(store["rows"] for store in committed.stores.values())
        close_files_except(engine.coordinator.storage, set())
        return cpu, rows, {name: file_content(f"{folder}/checkpoint/results/{name}/*.parquet") for name in texts}


def _row(name: str, plan: Plan, queries: int, scale: float, seconds: Sequence[float], stored: int) -> PlanCost:
    parts = {part: _part(plan, part) for part in PARTS}
    predicted = sum(getattr(Weights(), part) * value for part, value in parts.items())
    mirs = sum(store.key.join is not None for store in plan.stores)
    return PlanCost(queries, scale, name, mirs, plan.rounds, predicted, **parts, cpu_seconds=min(seconds), worst_seconds=max(seconds),
                    stored_rows=stored)  # fmt: skip


def _part(plan: Plan, part: str) -> float:
    """The tuples that the model charges with one weight: the cost where it is 1 and all others are 0."""
    return _price(plan, Weights(**{**dict.fromkeys(PARTS, 0.0), part: 1.0}, round=0.0))
