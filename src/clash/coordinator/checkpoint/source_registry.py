"""The checkpoint's own record: its format, its time zone, and the order in which Spark reads the streams.

Invariant: a stream's place never changes, and new ones come behind the others: Spark knows its sources by their number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock

from clash.codec import Codec
from clash.errors import CheckpointError
from clash.state.json_records import read_json, write_record
from clash.state.storage import Storage

FORMAT = 6
_PATH = "job.json"


@dataclass(frozen=True)
class _Record:
    format: int
    timezone: str
    sources: tuple[str, ...]


_CODEC: Codec[_Record] = Codec(_Record)


def is_new(storage: Storage) -> bool:
    return not storage.exists(_PATH)


class SourceRegistry:
    """`order`: the streams by their place. A new checkpoint begins with `first`."""

    def __init__(self, storage: Storage, timezone: str, first: Iterable[str] = ()) -> None:
        self._storage, self._timezone = storage, timezone
        self._lock = Lock()  # calls and batches may extend it
        self.order: tuple[str, ...] = ()
        if is_new(storage):
            self.extend(first)
            return
        data = read_json(storage, _PATH)
        _check_format(data, storage.uri)
        record = _CODEC.decode(data)
        _check_timezone(record.timezone, timezone, storage.uri)
        self.order = record.sources

    def extend(self, streams: Iterable[str]) -> None:
        with self._lock:
            new = [name for name in streams if name not in self.order]
            if new:
                order = (*self.order, *new)
                write_record(self._storage, _PATH, _CODEC, _Record(FORMAT, self._timezone, order))
                self.order = order


def _check_format(data: object, uri: str) -> None:
    recorded = data.get("format") if isinstance(data, dict) else None
    if recorded != FORMAT:
        raise CheckpointError(
            "the checkpoint was written by another version of clash",
            f"{uri} has format {recorded}, this version writes {FORMAT}",
            "use another checkpoint folder, or the version that wrote it",
        )


def _check_timezone(recorded: str, now: str, uri: str) -> None:
    if recorded != now:
        raise CheckpointError(
            "the checkpoint belongs to another job",
            f"{uri}: timezone was {recorded!r}, now {now!r}",
            "set spark.sql.session.timeZone as it was, or use another checkpoint folder",
        )
