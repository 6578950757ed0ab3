"""What is known of stored rows without reading them: the containers, how they are laid out, and which of their rows still count.

Invariant: a container never changes. That some of its rows were moved elsewhere is recorded beside it, as the arrival from which on its
rows count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from clash.codec import Codec
from clash.columnar.block import Ints
from clash.model.layout import ALL, Layout

ALL_SLOTS = -1  # the slot of a container with rows of all workers, which one task wrote


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """A container file, as manifests list it."""

    path: str
    store: str
    copy: int
    """The number of the layout, among those of its store, under which it was written."""
    generation: int
    """The generation that gave its store the layouts under which it was written."""
    slot: int
    """The worker that wrote it, under that layout; `ALL_SLOTS` where one task did the work of all workers."""
    rows: int
    bytes: int
    first_arrival: int
    """The smallest arrival of its rows."""
    last_arrival: int
    """The largest arrival of its rows."""
    time_ranges: tuple[tuple[int, int], ...]
    """Per part of a row, the smallest and the largest event time."""
    counts_from: int = 0
    """Rows that arrived earlier were moved into a newer layout, and do not count any more."""
    writer: str | None = None
    """The store that wrote it and whose layouts it has, if that is another one (`store_bootstrap`)."""
    split_points: tuple[int, ...] = ()
    """The arrivals at which it can be split into parts of about equally many rows."""

    @property
    def oldest(self) -> int:
        """No row that counts arrived before it."""
        return max(self.first_arrival, self.counts_from)

    @property
    def key(self) -> tuple[str, str]:
        """Several stores may list the same file."""
        return self.store, self.path

    def counting_from(self, arrival: int) -> ContainerRecord:
        """The same container, of which only rows from that arrival on count."""
        return replace(self, counts_from=max(arrival, self.counts_from))


_RECORD: Codec[ContainerRecord] = Codec(ContainerRecord)


def describe(record: ContainerRecord) -> Any:
    """What a container says of itself, as JSON data. Its size is not known when it is written."""
    return _RECORD.encode(replace(record, bytes=0))


def is_described(record: ContainerRecord, description: Any) -> bool:
    """Whether the record is of the container that describes itself so. Stores that begin with it, and rows that moved, do not matter."""
    written = replace(record, store=record.writer or record.store, writer=None, counts_from=0)
    return bool(describe(written) == description)


class LayoutVersion(NamedTuple):
    """How a store is laid out from a generation on."""

    generation: int
    layouts: tuple[Layout, ...]
    slots: int
    """The number of workers."""


class RelayoutRange(NamedTuple):
    """The rows of a store that were written under an older generation's layout and arrived before `before` move into today's layout."""

    store: str
    generation: int
    before: int


class BackfillRange(NamedTuple):
    """Stored tuples with arrivals from `first` to before `before` are probed once more, to fill an intermediate store with the rows that
    were completed before it was introduced."""

    store: str
    first: int
    before: int


def after_relayout(record: ContainerRecord, ranges: Iterable[RelayoutRange]) -> ContainerRecord | None:
    """What remains of a container when rows have moved; None for nothing."""
    for store, generation, before in ranges:
        if (store, generation) == (record.store, record.generation):
            record = record.counting_from(before)
    return record if record.last_arrival >= record.oldest else None


def first_copies(containers: Iterable[ContainerRecord], layouts: Mapping[str, Sequence[LayoutVersion]]) -> list[ContainerRecord]:
    """The containers that together have every row of their stores once: the first copy and, where it is replicated, the first slot and
    what all workers share."""
    replicated = {(store, version.generation) for store, versions in layouts.items() for version in versions if version.layouts[0] == ALL}
    return [r for r in containers if r.copy == 0 and (r.slot in (0, ALL_SLOTS) or (r.store, r.generation) not in replicated)]


def oldest_arrivals(containers: Iterable[ContainerRecord]) -> dict[str, int]:
    """Per store the smallest arrival of any row that counts."""
    oldest: dict[str, int] = {}
    for record in containers:
        oldest[record.store] = min(record.oldest, oldest.get(record.store, record.oldest))
    return oldest


def split_points(arrivals: Ints, max_rows: int) -> tuple[int, ...]:
    """The split points of a container with these arrivals, so that ranges of `max_rows` rows can be chosen from its record alone: a
    container may have few rows of long ago and many of one hour, or the other way round."""
    rows = len(arrivals)
    parts = 1 + rows // max(1, max_rows // 2)
    at = [number * rows // parts for number in range(1, parts)]
    return tuple(np.partition(arrivals, at)[at].tolist()) if at else ()
