"""What the tests of the workers share: a physical plan in a storage in memory, batches that are described by hand, and rows as blocks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from clash.columnar.block import Block, from_batch
from clash.coordinator.checkpoint.plan_files import PlanFiles
from clash.model.block_columns import ARRIVAL, EVENT_TIME, NUMBER_BITS
from clash.model.stream import Stream
from clash.plan.logical import LogicalPlan
from clash.plan.physical import ProbeStep, StoreCopy
from clash.plan.topology import Topology
from clash.plan.visibility import VisibilityBounds
from clash.protocol.batch import BatchSpec, Tuning
from clash.protocol.containers import ContainerRecord, LayoutVersion
from clash.protocol.messages import Message, read_block
from clash.protocol.reports import StoreChanges
from clash.state.storage import Storage, open_storage
from clash.topology.build import build_topology
from clash.topology.complete import complete
from clash.workers.loaded_plan import LoadedPlan, load_plan
from clash.workers.stored_container import StoredContainer
from clash.workers.stores import WorkerStores

SECOND = 1_000_000
END = 1 << 62  # after every arrival
_names = itertools.count()


def new_uri() -> str:
    return f"memory:workers-{next(_names)}"


def stream(name: str, window: str | None = None, **options: Any) -> Stream:
    """Two keys, a value, a text and an event time."""
    columns = {"a": "bigint", "b": "bigint", "v": "int", "s": "string", "ts": "timestamp"}
    return Stream.of(name, columns, time="ts", window=window, **options)


@dataclass(frozen=True)
class Checkpoint:
    """A generation's physical plan, in the storage of its checkpoint."""

    uri: str
    topology: Topology
    path: str
    generation: int

    @property
    def storage(self) -> Storage:
        return open_storage(self.uri)

    @property
    def plan(self) -> LoadedPlan:
        return load_plan(self.uri, self.path, "UTC")

    def spec(
        self,
        *containers: ContainerRecord,
        older: Mapping[str, Sequence[LayoutVersion]] | None = None,
        tuning: Mapping[str, int] | None = None,
        **changes: Any,
    ) -> BatchSpec:
        """A batch that finds these containers; `older` are the older layouts of stores that have some."""
        topology = self.topology
        spec = BatchSpec(
            uri=self.uri,
            checkpoint="0123456789ab", plan_path=self.path, generation=self.generation,
            timezone="UTC", batch=1, attempt="00c0ffee", partitions=1,
            workers=topology.workers, rounds=topology.rounds, now=7 * SECOND, first_number=0, watermarks={}, containers=containers,
            sinks={query.name: (self.uri, f"results/{query.name}") for query in topology.queries},
            layouts={store.id: (*(older or {}).get(store.id, ()), self.version(store.id)) for store in topology.stores},
            tuning=Tuning(**(tuning or {})),
        )  # fmt: skip
        return replace(spec, **changes)

    def version(self, store: str) -> LayoutVersion:
        return LayoutVersion(self.generation, self.topology.store[store].layouts, self.topology.workers)

    def copy(self, store: str, number: int = 0) -> StoreCopy:
        return self.plan.copies[store, number]

    def step(self, origin: str, adds: str) -> ProbeStep:
        """The step in which tuples of an origin meet the relations `adds`, such as `S` or `S T`."""
        rules = [rule for rule in self.topology.rules if str(getattr(rule, "origin", "")) == origin]
        return next(step for rule in rules if " ".join(map(str, (step := self.plan.steps[rule.edge]).adds)) == adds)

    def write(self, store: str, block: Block, *, worker: int = 0, **spec: Any) -> ContainerRecord:
        """The record of a container with these rows alone, as an earlier batch wrote it."""
        stores = WorkerStores(self.spec(**{"tuning": {"merge_rows": 0}, **spec}), worker, 1)
        stores.add(self.copy(store), block)
        (record,) = stores.close().added
        return record


def checkpoint(plan: LogicalPlan, visibility: VisibilityBounds | None = None, *, uri: str | None = None, generation: int = 1) -> Checkpoint:
    """The checkpoint of a plan; under the `uri` of another one, a later generation of that one."""
    uri = uri or new_uri()
    topology = build_topology(plan) if visibility is None else build_topology(plan, visibility)
    return Checkpoint(uri, topology, PlanFiles(open_storage(uri)).write(complete(topology)), generation)


def arrival(number: int, role: int = 0) -> int:
    return (number << NUMBER_BITS) + role


def rows(schema: pa.Schema, values: Sequence[Mapping[str, Any]]) -> Block:
    """Rows as a block; columns that are not named are NULL."""
    return from_batch(pa.RecordBatch.from_pylist([dict(row) for row in values], schema=schema))


def stored(found: Checkpoint, store: str, numbers: Iterable[int], **columns: Sequence[Any] | Any) -> Block:
    """Rows of a base store by their arrival numbers. A column is given as a list, or as one value for all; `time` is in seconds, and 0."""
    copy, numbers = found.copy(store), list(numbers)
    name = store.removeprefix("s_")
    columns = {key: value if isinstance(value, list) else [value] * len(numbers) for key, value in {"time": 0, **columns}.items()}
    values: list[dict[str, Any]] = []
    for at, number in enumerate(numbers):
        row = {ARRIVAL: arrival(number), EVENT_TIME: int(columns["time"][at] * SECOND)}
        values.append(row | {f"{name}.{key}": value[at] for key, value in columns.items() if key != "time"})
    return rows(found.plan.copy_schemas[store, copy.number], values)


def arrivals(container: StoredContainer) -> list[int]:
    """The arrival numbers of the rows of a container that count and are the worker's."""
    return sorted(int(at) >> NUMBER_BITS for at in container.ints(ARRIVAL)[container.rows_before(END)])


def seen(stores: WorkerStores, copy: StoreCopy) -> list[int]:
    """The arrival numbers of all rows that a worker finds in a store."""
    return sorted(number for container in stores.open(copy) for number in arrivals(container))


def after(records: Iterable[ContainerRecord], changes: StoreChanges) -> tuple[ContainerRecord, ...]:
    """The containers after a commit."""
    return (*(record for record in records if record.path not in changes.removed), *changes.added)


def received(found: Checkpoint, messages: Iterable[Message]) -> dict[str, list[tuple[int, dict[str, Any]]]]:
    """The rows of messages, by channel, with the worker that gets them."""
    by_channel: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for worker, kind, payload in messages:
        if kind in found.plan.channels:
            schema = found.plan.channel_schemas[kind]
            batch = read_block(payload, schema).to_batch(schema)
            by_channel.setdefault(kind, []).extend((worker, row) for row in batch.to_pylist())
    return by_channel
