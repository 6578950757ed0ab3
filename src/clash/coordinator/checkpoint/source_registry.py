"""The checkpoint's own record: its format, its identity, its time zone, the order in which Spark reads the streams, and their sources.

Invariant: a stream's place never changes, and new ones come behind the others: Spark knows its sources by their number. The identity is
drawn once, when the checkpoint is created, and is part of the names of its result files.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock

from clash.codec import Codec
from clash.coordinator.checkpoint.format_6 import FORMAT_6
from clash.coordinator.checkpoint.source_shape import Shapes
from clash.errors import CheckpointError
from clash.state.json_records import read_bytes, read_json, read_record, write_record
from clash.state.storage import Storage

FORMAT = 8
_READABLE = (FORMAT_6, 7, FORMAT)  # format 7 has no containers that workers share
PATH = "job.json"


@dataclass(frozen=True)
class _Record:
    format: int
    timezone: str
    sources: tuple[str, ...]
    identity: str = ""
    """Twelve hexadecimal digits; empty in format 6, until an upgrade begins."""
    shapes: Shapes = field(default_factory=dict)
    """Of the streams that Spark reads; empty until it does so for the first time, and where an earlier version wrote the record."""


_CODEC: Codec[_Record] = Codec(_Record)


def is_new(storage: Storage) -> bool:
    return not storage.exists(PATH)


def format_of(storage: Storage) -> int:
    """The format of an existing checkpoint; CheckpointError if this version cannot read it."""
    line, _, checksum = read_bytes(storage, PATH).partition(b"\n")
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return FORMAT  # damaged: reading the record says so
    recorded = data.get("format") if isinstance(data, dict) else None
    if recorded not in _READABLE:
        if recorded is None:
            read_record(storage, PATH, _CODEC)  # raises: it is no such record
        if checksum:
            read_json(storage, PATH)  # raises if it is damaged rather than of another version
        raise CheckpointError(
            "the checkpoint was written by another version of clash",
            f"{storage.label(PATH)} has format {recorded}, this version reads {_READABLE[0]} to {FORMAT}",
            "use the version that wrote it, or start anew with empty checkpoint and result folders",
        )
    return int(recorded)


def identity_of(storage: Storage) -> str:
    """The identity of an existing checkpoint; empty in format 6, unless an upgrade of it was killed."""
    return read_record(storage, PATH, _CODEC).identity


class SourceRegistry:
    """`order`: the streams by their place; `shapes`: the sources of those that Spark has read. A new checkpoint begins with `first`.
    Reading changes nothing: `write` creates or upgrades."""

    def __init__(self, storage: Storage, timezone: str, first: Iterable[str] = ()) -> None:
        self._storage, self._timezone = storage, timezone
        self._lock = Lock()  # calls and batches may extend it
        record = _Record(FORMAT, timezone, tuple(first)) if is_new(storage) else read_record(storage, PATH, _CODEC)
        _check_timezone(record.timezone, timezone, storage.uri)
        self.order: tuple[str, ...] = record.sources
        self.shapes: Shapes = record.shapes
        self.identity = record.identity or secrets.token_hex(6)

    def write(self, format: int = FORMAT) -> None:
        record = _Record(format, self._timezone, self.order, self.identity, self.shapes)
        write_record(self._storage, PATH, _CODEC, record)

    def extend(self, streams: Iterable[str]) -> None:
        with self._lock:
            before = self.order
            self.order = tuple(dict.fromkeys((*before, *streams)))
            if self.order != before:
                try:
                    self.write()
                except BaseException:
                    self.order = before
                    raise

    def record_shapes(self, shapes: Shapes) -> None:
        """Called before Spark reads these sources: from then on their offsets are in its half of the checkpoint."""
        with self._lock:
            before = self.shapes
            self.shapes = shapes
            if shapes != before:
                try:
                    self.write()
                except BaseException:
                    self.shapes = before
                    raise


def _check_timezone(recorded: str, now: str, uri: str) -> None:
    if recorded != now:
        raise CheckpointError(
            "the checkpoint belongs to another job",
            f"{uri}: timezone was {recorded!r}, now {now!r}",
            "set spark.sql.session.timeZone as it was, or use another checkpoint folder",
        )
