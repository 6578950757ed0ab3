"""How good are the statistics: what gathering costs, how far estimates are from the truth, and whether predicted costs rank plans as
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

from clash.bench.tables import note, write
from clash.bench.tpch_data import DATA, Data, tpch_data
from clash.bench.tpch_duckdb import connect
from clash.bench.tpch_queries import first_queries, tpch_streams
from clash.coordinator.adaptive.plan_pricing import price
from clash.protocol.batch import Work
from clash.inprocess import InProcess
from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.planner.cost_model import Weights
from clash.planner.optimize import optimize
from clash.planner.plan import Plan
from clash.sql import parse_queries
from clash.statistics import Gatherer, History, estimate, merge, collection_spec
from clash.columnar.block import TAU, Block
from clash.protocol.messages import to_json

TASKS = 2
WORST = 20.0  # plans that are predicted to cost so many times the best are not run: they only take long


@dataclass(frozen=True)
class Gathering:
    """CPU nanoseconds per tuple, of gathering and of what is sent at the end of a task; bytes of the largest message."""

    scale: float
    tuples: int
    gather_ns: float
    send_ns: float
    bytes: int


@dataclass(frozen=True)
class Error:
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
class Measured:
    """A plan: its predicted cost, without the price of rounds, which only Spark takes, and the work it was."""

    strategy: str
    mirs: bool
    predicted: float
    seconds: float
    rows: float


def run(
    scale: float = 0.1, batches: int = 10, plans: int = 16, repeat: int = 2, data: Path = DATA, out: Path = Path("bench/results")
) -> None:
    queries = first_queries(10)
    streams = {stream.name: stream for stream in tpch_streams(queries)}
    parsed, _ = parse_queries(queries, streams)
    tables = tpch_data(scale, batches, data)
    cost, history = _gather(tables, parsed, streams)
    note(f"gathering: {cost.gather_ns:.0f} ns a tuple and {cost.send_ns:.0f} ns to send, {cost.bytes / 1000:.0f} kB at most per task")
    write(out / "statistics-cost.csv", Gathering, [cost])
    began = time.thread_time()
    statistics = estimate(history, parsed, streams)
    note(f"estimating {len(statistics.sizes)} joins: {1000 * (time.thread_time() - began):.0f} ms")
    errors = list(_errors(tables, statistics))
    write(out / "statistics-errors.csv", Error, errors)
    for relations in sorted({error.relations for error in errors}):
        factors = sorted(error.factor for error in errors if error.relations == relations)
        note(f"joins of {relations}: off by {_median(factors):.2f}× at the median, {factors[-1]:.2f}× at most, of {len(factors)}")
    _rank(plans, repeat, data, out)


# ---- what it costs -----------------------------------------------------------------------------------------------


def _gather(data: Data, queries: tuple[Query, ...], streams: Mapping[str, Stream]) -> tuple[Gathering, History]:
    """Every batch is an epoch; the first one is gathered once more at the start, to have the kernels loaded."""
    want, history = collection_spec(queries, streams), History()
    gathering = sending = 0.0
    tuples = largest = 0
    for number in [0, *range(data.batches)]:
        warm = history.epochs == 0 and tuples == 0 and number == 0 and largest == 0
        parts = []
        for task in range(TASKS):
            blocks = [
                (name, block) for name, table in data.batch(number).items() if name in streams for block in _blocks(name, table, task)
            ]
            gatherer = Gatherer(want, "UTC")
            began = time.thread_time()
            for name, block in blocks:
                gatherer.add(name, block)
            added = time.thread_time()
            parts.append(gatherer.to_json())
            ended = time.thread_time()
            if not warm:
                gathering, sending = gathering + added - began, sending + ended - added
                tuples += sum(block.rows for _, block in blocks)
            largest = max(largest, len(str(parts[-1])))
        if not warm:
            history.add_epoch(merge(parts), want, streams)
    return Gathering(data.scale, tuples, 1e9 * gathering / tuples, 1e9 * sending / tuples, largest), history


def _blocks(name: str, table: pa.Table, task: int) -> Iterator[Block]:
    part = table.slice(table.num_rows * task // TASKS, table.num_rows * (task + 1) // TASKS - table.num_rows * task // TASKS)
    for batch in part.combine_chunks().to_batches():
        columns = {f"{name}.{column}": values for column, values in zip(batch.schema.names, batch.columns, strict=True)}
        yield Block(batch.num_rows, {**columns, TAU: pa.array(np.zeros(batch.num_rows, np.int64))})


# ---- how far it is from the truth --------------------------------------------------------------------------------


def _errors(data: Data, statistics: Statistics) -> Iterator[Error]:
    with connect(data) as connection:
        for key, estimated in statistics.sizes.items():
            tables = sorted({side.strip().split(".")[0] for equality in key for side in equality.split("=")})
            exact = connection.execute(f"SELECT count(*) FROM {', '.join(tables)} WHERE {' AND '.join(key)}").fetchone()[0]
            yield Error(" AND ".join(key), len(tables), float(exact), estimated)


# ---- does it rank plans ------------------------------------------------------------------------------------------


class _Counting(InProcess):
    """Adds up what tasks report: seconds, and rows that probe, are found and are stored."""

    seconds = 0.0
    rows = 0.0

    def _run(self, work: Work, parts: Any) -> Any:
        reports = super()._run(work, parts)
        for report in map(to_json, reports):
            self.seconds += report["seconds"].get("ingest", 0.0) + report["seconds"].get("round", 0.0)
            self.rows += sum(asked + found for asked, found in report.get("matches", {}).values())
        return reports


def _rank(count: int, repeat: int, root: Path, out: Path) -> None:
    """Plans of the first five queries, made for wrong statistics of all kinds; small data, for in process each takes seconds."""
    queries = first_queries(5)
    data = tpch_data(0.01, 20, root)
    streams = {stream.name: stream for stream in tpch_streams(queries)}
    parsed, _ = parse_queries(queries, streams)
    _, history = _gather(data, parsed, streams)
    statistics = estimate(history, parsed, streams)
    measured = []
    for plan, predicted in _plans(count, queries, statistics, streams):
        runs = [_measure(plan, queries, streams, data) for _ in range(repeat)]
        seconds, rows = min(run[0] for run in runs), runs[0][1]
        measured.append(Measured(plan.strategy, plan.asked.mirs, predicted, seconds, rows))
        note(f"plan {len(measured)}: predicted {predicted:,.0f}, {seconds:.2f} s, {rows:,.0f} rows")
    write(out / "statistics-plans.csv", Measured, measured)
    costs = [m.predicted for m in measured]
    by_rows, by_seconds = spearman(costs, [m.rows for m in measured]), spearman(costs, [m.seconds for m in measured])
    note(f"rank correlation of {len(measured)} plans: {by_rows:.2f} with rows, {by_seconds:.2f} with seconds of tasks")


def _plans(count: int, queries: Mapping[str, str], statistics: Statistics, streams: Mapping[str, Stream]) -> Iterator[tuple[Plan, float]]:
    """Different plans with what each would cost under the true statistics."""
    rng = random.Random(1)
    seen: set[object] = set()
    best = math.inf
    for number in itertools.count():
        if len(seen) == count or number == 20 * count:
            return
        wrong = Statistics(
            rates={name: 10 ** rng.uniform(1, 5) for name in streams},
            selectivities={name: 10 ** rng.uniform(-5, -1) for name in statistics.selectivities},
        )
        told = statistics if number == 0 else wrong
        strategy = rng.choice(["global", "shared", "independent"]) if number else "global"
        plan = optimize(queries, told, streams=streams.values(), workers=2, strategy=strategy, mirs=rng.random() < 0.7, time_limit=0.0)  # type: ignore[arg-type]
        cost = price(plan, statistics)
        if cost is None:
            continue
        cost -= Weights().round * plan.rounds
        best = min(best, cost)
        key = (plan.probe_orders, plan.stores)
        if cost <= WORST * best and str(key) not in seen:
            seen.add(str(key))
            yield plan, cost


def _measure(plan: Plan, queries: Mapping[str, str], streams: Mapping[str, Stream], data: Data) -> tuple[float, float]:
    engine = _Counting(list(streams.values()), queries, workers=2, plan=plan, strategy=plan.strategy, mirs=plan.asked.mirs)
    stored = 0
    for number in range(data.batches):
        committed = engine.batch({name: table for name, table in data.batch(number).items() if name in streams})
        stored = sum(store["rows"] for store in committed.stores.values())
    return engine.seconds, engine.rows + stored


def spearman(left: list[float], right: list[float]) -> float:
    """The correlation of ranks; equal values share theirs."""
    if len(left) < 2:
        return math.nan
    return float(np.corrcoef(_ranks(left), _ranks(right))[0, 1])


def _ranks(values: list[float]) -> list[float]:
    return [sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2 for value in values]


def _median(values: list[float]) -> float:
    return values[len(values) // 2]
