"""What tasks report: everything that the coordinator learns of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from clash.codec import Codec
from clash.protocol.containers import ContainerRecord
from clash.statistics.collected import Collected


class ResultFile(NamedTuple):
    """A file of results, or of late or rejected rows, that is staged and waits for the commit."""

    destination: str
    """A query, `late/<stream>` or `rejected/<stream>`."""
    name: str
    rows: int


class ProbeCount(NamedTuple):
    """How many tuples probed on an edge, and how many matches there were."""

    probes: float
    matches: float


@dataclass(frozen=True)
class StoreChanges:
    """The containers that a worker wrote in a round, and the paths of those that it merged into them."""

    round: int
    added: tuple[ContainerRecord, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class IngestReport:
    """Of one ingest task."""

    rows: Mapping[str, int]
    """By stream, the tuples that were read."""
    late: Mapping[str, int]
    """By stream, those of them that were late or had no event time."""
    max_event_times: Mapping[str, int]
    numbers: int
    """The arrival numbers that the task used."""
    files: tuple[ResultFile, ...]
    """Of late and rejected rows."""
    statistics: Collected
    seconds: Mapping[str, float]
    rejected: Mapping[str, int] = field(default_factory=dict)
    """By stream, records that are no tuples: they cannot be decoded, or have no event time."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """By stream, records that the source does not have any more."""


@dataclass(frozen=True)
class RoundReport:
    """Of one worker in one round, or of one task that did the work of all workers."""

    worker: int
    stores: StoreChanges
    files: tuple[ResultFile, ...]
    probes: Mapping[str, ProbeCount]
    """By edge label."""
    seconds: Mapping[str, float]

    @property
    def round(self) -> int:
        return self.stores.round


Report = IngestReport | RoundReport
REPORT: Codec[Report] = Codec(Report)
STORE_CHANGES: Codec[StoreChanges] = Codec(StoreChanges)
