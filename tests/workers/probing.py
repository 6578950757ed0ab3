"""What the tests of the probe step share: a join on one worker, probing tuples as blocks, and matches as pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import clash
from clash.columnar.block import Block, deadlines
from clash.expressions import arrow_type
from clash.model.block_columns import ARRIVAL, DEADLINE, EARLIEST, LATEST, NUMBER_BITS, UNBOUNDED_WINDOW, part_event_time
from clash.model.relation import Relation
from clash.plan.physical import ProbeStep
from clash.workers.probe import probe_step
from clash.workers.stored_container import StoredContainer
from clash.workers.stores import WorkerStores

from .batches import SECOND, Checkpoint, arrival, checkpoint, stream

JOIN = "SELECT R.v, S.v AS w FROM R JOIN S ON R.a = S.a"


def one_worker(text: str = JOIN, *windows: str | None) -> Checkpoint:
    """A query over R and S, which have these windows."""
    streams = [stream(name, window) for name, window in zip("RS", windows or (None, None), strict=True)]
    return checkpoint(clash.optimize({"q": text}, streams=streams, workers=1, time_limit=0.0))


def containers_of(found: Checkpoint, store: str, *blocks: Block) -> list[StoredContainer]:
    """The store with each block in a container of its own."""
    records = [found.write(store, block) for block in blocks if block.rows]
    return WorkerStores(found.spec(*records), 0, 1).open(found.copy(store))


def pairs(found: Checkpoint, block: Block, containers: Sequence[StoredContainer], step: ProbeStep | None = None) -> list[tuple[int, int]]:
    """The arrival number of the probing tuple of R, and `v` of the stored one of S, of every match."""
    step = step or found.step("R", "S")
    results = probe_step(found.plan, step, block, containers, 1 << 10)
    return sorted((row[ARRIVAL] >> NUMBER_BITS, row["S.v"]) for result in results for row in rows_of(result))


def rows_of(block: Block) -> list[dict[str, Any]]:
    columns = {name: column.to_pylist() for name, column in block.columns.items()}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def probing(found: Checkpoint, relation: str, numbers: Iterable[int], **columns: Sequence[Any] | Any) -> Block:
    """Tuples of a relation, such as `R` or `R#2`, by arrival number. A column is given as a list, or as one value for all, and is NULL
    otherwise; `time` is in seconds, and 0."""
    numbers = list(numbers)
    name, _, role = relation.partition("#")
    declared, number = found.plan.streams[name], int(role or 1) - 1
    lists = {key: value if isinstance(value, list) else [value] * len(numbers) for key, value in columns.items()}
    times = np.array(lists.pop("time", [0] * len(numbers)), np.int64) * SECOND
    made = {ARRIVAL: pa.array([arrival(n, number) for n in numbers], pa.int64())}
    made[EARLIEST] = pa.array([arrival(n) for n in numbers], pa.int64())
    made[LATEST] = made[part_event_time(Relation(name, number))] = pa.array(times)
    window = declared.window if declared.window is not None else UNBOUNDED_WINDOW
    made[DEADLINE] = pa.array(deadlines(times, window))
    for column, kind in declared.columns:
        made[f"{relation}.{column}"] = pa.array(lists.get(column, [None] * len(numbers)), arrow_type(kind))
    return Block(len(numbers), made)
