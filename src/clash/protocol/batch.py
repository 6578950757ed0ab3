"""What a batch's tasks are told: small, complete, and the same for all of them.

Invariant: tasks decide nothing that two attempts, or two tasks, could decide differently; what a batch runs under is here.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

from clash.model.layout import Layout
from clash.workers.program import Program, load_program


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """A container file, as manifests list it. `generation`: the one that gave its store the layouts it has. `taus`: per part, the smallest
    and the largest event time; `first` and `last`: the smallest and the largest arrival. Rows from before `moved` do not count any more.
    `donor`: the store that wrote it, and whose layouts it has, if that is another one (`clash.coordinator.lifecycle.store_bootstrap`). `marks`: the arrivals at
    which it can be cut into parts of equally many rows (`clash.coordinator.lifecycle.split_points`)."""

    path: str
    store: str
    copy: int
    generation: int
    slot: int
    rows: int
    bytes: int
    first: int
    last: int
    taus: tuple[tuple[int, int], ...]
    moved: int = 0
    donor: str | None = None
    marks: tuple[int, ...] = ()

    @property
    def oldest(self) -> int:
        """No row that counts arrived before it."""
        return max(self.first, self.moved)

    @property
    def key(self) -> tuple[str, str]:
        """Several stores may have the same file."""
        return self.store, self.path

    def since(self, arrival: int) -> ContainerRecord:
        """The same, of which only rows from that arrival on count."""
        return replace(self, moved=max(arrival, self.moved))

    @staticmethod
    def from_json(data: dict[str, Any]) -> ContainerRecord:
        return ContainerRecord(**{**data, "taus": tuple(tuple(tau) for tau in data["taus"]), "marks": tuple(data["marks"])})

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _FIELDS}  # not asdict: it copies deeply, and there are many of them


_FIELDS = tuple(f.name for f in fields(ContainerRecord))


class Laid(NamedTuple):
    """How a store was laid out from a generation on."""

    generation: int
    layouts: tuple[Layout, ...]
    slots: int

    def to_json(self) -> list[Any]:
        return [self.generation, [layout.to_json() for layout in self.layouts], self.slots]

    @staticmethod
    def from_json(data: list[Any]) -> Laid:
        generation, layouts, slots = data
        return Laid(generation, tuple(map(Layout.from_json, layouts)), slots)


class Moved(NamedTuple):
    """What a store has of an older generation from before an arrival moves into today's layout."""

    store: str
    generation: int
    upto: int


@dataclass(frozen=True)
class Tuning:
    """Sizes that change speed and memory, never a result."""

    piece: int = 1 << 18  # rows of an intermediate block
    gather: int = 1 << 15  # rows of a stream that are routed together
    message: int = 400_000  # bytes of a message
    file_bytes: int = 64 << 20  # of a result file before the next one is begun
    merge_rows: int = 1 << 26  # of a merged container, at most
    memory: int = 512 << 20  # bytes of blocks that wait in memory; more of them wait on disk
    rewrite_rows: int = 1 << 19  # of older layouts that a batch rewrites into today's, about
    generations: int = 4  # older layouts that a store whose rows expire may have for long


@dataclass(frozen=True)
class Work:
    """`first`: the batch's first arrival number; watermarks are None where nothing is late; `sinks`: per query, where its result
    files go (a storage and a folder in it). `layouts`: per store, how it was laid out in every generation that has live containers, today's
    last. `rewrite`: what moves into today's layout with this batch. `backfill`: per intermediate store, the arrivals
    (from, to) of tuples that are probed once more, for rows that were completed before it was introduced."""

    uri: str
    plan: str
    generation: int
    timezone: str
    batch: int
    attempt: str
    partitions: int
    now: int
    first: int
    watermarks: dict[str, int | None]
    containers: tuple[ContainerRecord, ...]
    sinks: dict[str, tuple[str, str]]
    layouts: dict[str, tuple[Laid, ...]] = field(default_factory=dict)
    rewrite: tuple[Moved, ...] = ()
    backfill: tuple[tuple[str, int, int], ...] = ()
    tuning: Tuning = field(default_factory=Tuning)

    @cached_property
    def program(self) -> Program:
        return load_program(self.uri, self.plan, self.timezone)

    @property
    def workers(self) -> int:
        return self.program.topology.workers

    @property
    def rounds(self) -> int:
        return self.program.topology.rounds

    def to_json(self) -> str:
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        layouts = {store: [laid.to_json() for laid in all_] for store, all_ in self.layouts.items()}
        told = {**data, "containers": [c.to_json() for c in self.containers], "layouts": layouts, "tuning": asdict(self.tuning)}
        return json.dumps(told, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Work:
        data = json.loads(text)
        containers = tuple(map(ContainerRecord.from_json, data.pop("containers")))
        layouts = {store: tuple(map(Laid.from_json, all_)) for store, all_ in data["layouts"].items()}
        backfill = tuple((store, first, last) for store, first, last in data["backfill"])
        told = {**data, "containers": containers, "layouts": layouts, "backfill": backfill}
        return Work(**{**told, "rewrite": tuple(Moved(*moved) for moved in data["rewrite"]), "tuning": Tuning(**data["tuning"])})
