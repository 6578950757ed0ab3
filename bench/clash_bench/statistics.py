"""How good the statistics are: what collecting costs, how far estimates are from the exact sizes, and whether predicted costs rank plans as
measured ones do. TPC-H's ten queries, in process, without Spark."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from clash.columnar.block import Block
from clash.coordinator.adaptive.plan_pricing import price_plan
from clash.inprocess.engine import InProcessEngine
from clash.model.block_columns import EVENT_TIME
from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.optimizer import Plan, optimize
from clash.planner.cost_model import Weights
from clash.protocol.batch import BatchSpec
from clash.protocol.reports import RoundReport
from clash.sql import parse_queries
from clash.statistics import Collector, StatisticsHistory, build_collection_spec, estimate, merge
from clash.statistics.collected import COLLECTED
from clash_bench.tables import note, write
from clash_bench.tpch_data import DATA, Data, tpch_data
from clash_bench.tpch_duckdb import connect
from clash_bench.tpch_queries import first_queries, tpch_streams

TASKS = 2
MAX_COST_RATIO = 20.0  # plans that are predicted to cost more than so many times the best are not run: they take too long


@dataclass(frozen=True)
class CollectionCost:
    """What collecting costs the tasks."""

    scale: float
    tuples: int
    gather_ns: float
    """CPU nanoseconds per tuple of `Collector.add`."""
    send_ns: float
    """CPU nanoseconds per tuple of encoding what a task has collected, at its end."""
    bytes: int
    """Of the largest encoded part."""


@dataclass(frozen=True)
class Error:
    """An estimated size of a sub-join and its exact size."""

    join: str
    relations: int
    exact: float
    estimated: float

    @property
    def factor(self) -> float:
        """How many times too large or too small."""
        low, high = sorted((max(1.0, self.exact), max(1.0, self.estimated)))
        return high / low


@dataclass(frozen=True)
class MeasuredPlan:
    """The predicted cost of a plan and the work that it caused."""

    strategy: str
    mirs: bool
    predicted: float
    """Without the cost of rounds, which only Spark has."""
    seconds: float
    """Of all tasks."""
    rows: float
    """That probed, matched or were stored."""


def run(
    scale: float = 0.1, batches: int = 10, plans: int = 16, repeat: int = 2, data: Path = DATA, out: Path = Path("bench/results")
) -> None:
    queries = first_queries(10)
    streams = {stream.name: stream for stream in tpch_streams(queries)}
    parsed, _ = parse_queries(queries, streams)
    tables = tpch_data(scale, batches, data)
    cost, history = _collect(tables, parsed, streams)
    note(f"collecting: {cost.gather_ns:.0f} ns a tuple and {cost.send_ns:.0f} ns to encode, {cost.bytes / 1000:.0f} kB at most per task")
    write(out / "statistics-cost.csv", CollectionCost, [cost])
    began = time.thread_time()
    statistics = estimate(history, parsed, streams)
    note(f"estimating {len(statistics.sizes)} joins: {1000 * (time.thread_time() - began):.0f} ms")
    errors = list(_errors(tables, statistics))
    write(out / "statistics-errors.csv", Error, errors)
    for relations in sorted({error.relations for error in errors}):
        factors = sorted(error.factor for error in errors if error.relations == relations)
        note(f"joins of {relations}: wrong by {_median(factors):.2f}× at the median, {factors[-1]:.2f}× at most, of {len(factors)}")
    _rank(plans, repeat, data, out)


# ---- what collecting costs ---------------------------------------------------------------------------------------


def _collect(data: Data, queries: tuple[Query, ...], streams: Mapping[str, Stream]) -> tuple[CollectionCost, StatisticsHistory]:
    """Every batch is an epoch. The first one is collected once before and not counted, so that the kernels are compiled."""
    spec, history, hints = build_collection_spec(queries, streams), StatisticsHistory(), dict[str, float]()
    adding = encoding = 0.0
    tuples = max_bytes = 0
    for position, number in enumerate([0, *range(data.batches)]):
        warm_up = position == 0
        parts = []
        for task in range(TASKS):
            blocks = [
                (name, block) for name, table in data.batch(number).items() if name in streams for block in _blocks(name, table, task)
            ]
            collector = Collector(spec, "UTC", hints=hints)
            began = time.thread_time()
            for name, block in blocks:
                collector.add(name, block)
            added = time.thread_time()
            encoded = COLLECTED.dumps(collector.collected())
            ended = time.thread_time()
            if not warm_up:
                adding, encoding = adding + added - began, encoding + ended - added
                tuples += sum(block.rows for _, block in blocks)
            parts.append(COLLECTED.loads(encoded))
            max_bytes = max(max_bytes, len(encoded))
        if not warm_up:
            history.add_epoch(merge(parts), spec, streams)
    return CollectionCost(data.scale, tuples, 1e9 * adding / tuples, 1e9 * encoding / tuples, max_bytes), history


def _blocks(name: str, table: pa.Table, task: int) -> Iterator[Block]:
    part = table.slice(table.num_rows * task // TASKS, table.num_rows * (task + 1) // TASKS - table.num_rows * task // TASKS)
    for batch in part.combine_chunks().to_batches():
        columns = {f"{name}.{column}": values for column, values in zip(batch.schema.names, batch.columns, strict=True)}
        yield Block(batch.num_rows, {**columns, EVENT_TIME: pa.array(np.zeros(batch.num_rows, np.int64))})


# ---- how far estimates are from the exact sizes ------------------------------------------------------------------


def _errors(data: Data, statistics: Statistics) -> Iterator[Error]:
    with connect(data) as connection:
        for key, estimated in statistics.sizes.items():
            tables = sorted({side.strip().split(".")[0] for equality in key for side in equality.split("=")})
            exact = connection.execute(f"SELECT count(*) FROM {', '.join(tables)} WHERE {' AND '.join(key)}").fetchone()[0]
            yield Error(" AND ".join(key), len(tables), float(exact), estimated)


# ---- whether predicted costs rank plans --------------------------------------------------------------------------


class _CountingEngine(InProcessEngine):
    """Sums up what tasks report: seconds, and rows that probe and that match."""

    seconds = 0.0
    rows = 0.0

    def run_tasks(self, spec: BatchSpec, parts: Any) -> Any:
        reports = super().run_tasks(spec, parts)
        for report in reports:
            self.seconds += report.seconds.get("ingest", 0.0) + report.seconds.get("round", 0.0)
            if isinstance(report, RoundReport):
                self.rows += sum(count.probes + count.matches for count in report.probes.values())
        return reports


def _rank(count: int, repeat: int, root: Path, out: Path) -> None:
    """Plans of the first five queries, made for random wrong statistics; small data, because in process each plan takes seconds."""
    queries = first_queries(5)
    data = tpch_data(0.01, 20, root)
    streams = {stream.name: stream for stream in tpch_streams(queries)}
    parsed, _ = parse_queries(queries, streams)
    _, history = _collect(data, parsed, streams)
    statistics = estimate(history, parsed, streams)
    measured = []
    for plan, predicted in _plans(count, queries, statistics, streams):
        runs = [_measure(plan, queries, streams, data) for _ in range(repeat)]
        seconds, rows = min(run[0] for run in runs), runs[0][1]
        measured.append(MeasuredPlan(plan.strategy, plan.request.mirs, predicted, seconds, rows))
        note(f"plan {len(measured)}: predicted {predicted:,.0f}, {seconds:.2f} s, {rows:,.0f} rows")
    write(out / "statistics-plans.csv", MeasuredPlan, measured)
    costs = [m.predicted for m in measured]
    by_rows, by_seconds = spearman(costs, [m.rows for m in measured]), spearman(costs, [m.seconds for m in measured])
    note(f"rank correlation of {len(measured)} plans: {by_rows:.2f} with rows, {by_seconds:.2f} with seconds of tasks")


def _plans(count: int, queries: Mapping[str, str], statistics: Statistics, streams: Mapping[str, Stream]) -> Iterator[tuple[Plan, float]]:
    """Different plans, with the cost of each under the estimated statistics."""
    rng = random.Random(1)
    seen: set[str] = set()
    best = math.inf
    for number in itertools.count():
        if len(seen) == count or number == 20 * count:
            return
        wrong = Statistics(
            rates={name: 10 ** rng.uniform(1, 5) for name in streams},
            selectivities={name: 10 ** rng.uniform(-5, -1) for name in statistics.selectivities},
        )
        assumed = statistics if number == 0 else wrong
        strategy = rng.choice(["global", "shared", "independent"]) if number else "global"
        plan = optimize(queries, assumed, streams=streams.values(), workers=2, strategy=strategy, mirs=rng.random() < 0.7, time_limit=0.0)  # type: ignore[arg-type]
        cost = price_plan(plan, statistics)
        if cost is None:
            continue
        cost -= Weights().round * plan.rounds
        best = min(best, cost)
        key = str((plan.probe_orders, plan.stores))
        if cost <= MAX_COST_RATIO * best and key not in seen:
            seen.add(key)
            yield plan, cost


def _measure(plan: Plan, queries: Mapping[str, str], streams: Mapping[str, Stream], data: Data) -> tuple[float, float]:
    engine = _CountingEngine(list(streams.values()), queries, workers=2, plan=plan, strategy=plan.strategy, mirs=plan.request.mirs)
    stored = 0
    for number in range(data.batches):
        committed = engine.batch({name: table for name, table in data.batch(number).items() if name in streams})
        stored = sum(store["rows"] for store in committed.stores.values())
    return engine.seconds, engine.rows + stored


def spearman(left: list[float], right: list[float]) -> float:
    """Rank correlation; equal values share their mean rank."""
    if len(left) < 2:
        return math.nan
    return float(np.corrcoef(_ranks(left), _ranks(right))[0, 1])


def _ranks(values: list[float]) -> list[float]:
    return [sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2 for value in values]


def _median(values: list[float]) -> float:
    return values[len(values) // 2]
