"""What a system that takes results in transactions has to be able to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from clash.errors import SinkError

S = TypeVar("S")


@dataclass(frozen=True)
class Destination(Generic[S]):
    """Where the results of a query go."""

    query: str
    sink: S
    columns: pa.Schema


@dataclass(frozen=True)
class Output(Generic[S]):
    """The results of a query in one batch."""

    query: str
    sink: S
    columns: pa.Schema
    rows: int
    read: Callable[[], Iterable[pa.RecordBatch]]
    """The rows, in pieces; it may be called again."""


class UnavailableError(Exception):
    """The system does not answer, or has ended the transaction: whether the batch is there is known when it is opened again."""


class FencedError(Exception):
    """Another session has opened the target since."""


class RefusedError(Exception):
    """The system answers, and does not take the results; trying again does not help. `hint` says what can be done."""

    def __init__(self, detail: str, hint: str) -> None:
        super().__init__(detail)
        self.detail, self.hint = detail, hint


def refuse_missing(query: str, batch: int, written: int, rows: int) -> None:
    """A batch may be handed over again whose files are deleted since: then its number must have been there."""
    if written != rows:
        raise SinkError(
            "results of a batch are no longer there",
            f"query {query}, batch {batch}: {written} of {rows} rows",
            "restore the checkpoint: its files and the sink do not fit together",
        )


class Target(Protocol[S]):
    """One system, for one checkpoint. Its marker is the number of the last batch that is there, with the session that wrote it.

    `open` keeps every session that opened it before from writing, and ends what such a session has left open; only then does it read the
    marker. `write` makes the results of a batch and its number visible together, or neither. Every method may raise UnavailableError,
    after which the target has to be opened again.
    """

    name: str
    """For messages; without secrets."""
    marker_place: str
    """Where the marker is, for messages."""
    stopping: Event
    """Set when the run is to end: whatever waits then ends with UnavailableError."""
    identity: str | None
    """Equal for two names of one system; known once it has answered."""

    def prepare(self, destinations: Sequence[Destination[S]]) -> None:
        """Checks that what the sinks name is there and fits, and creates what they ask for."""

    def owner(self) -> str | None:
        """The session that wrote the marker; None if there is no marker."""

    def open(self) -> int | None:
        """The last batch that is there; None if there is no marker."""

    def write(self, batch: int, outputs: Sequence[Output[S]], session: str) -> None:
        """All results of the batch, and the marker."""

    def close(self) -> None:
        """What was not committed is given up."""
