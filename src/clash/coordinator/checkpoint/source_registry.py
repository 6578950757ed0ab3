"""The checkpoint's own record: what it was made with, and in which order Spark reads the streams.

Invariant: a stream's place never changes, and new ones come behind the others: Spark knows its sources by their number.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from clash.coordinator.control.job import FORMAT
from clash.coordinator.control.restart import check_format, check_timezone
from clash.state.json_records import read_json, write_json
from clash.state.storage import Storage

_JOB = "job.json"


def is_new(storage: Storage) -> bool:
    return not storage.exists(_JOB)


class Reading:
    """`order`: the streams by their place. A new checkpoint begins with `first`."""

    def __init__(self, storage: Storage, timezone: str, first: Iterable[str] = ()) -> None:
        self._storage, self._timezone = storage, timezone
        self._lock = Lock()  # calls and batches may add to it
        self.order: tuple[str, ...] = ()
        if is_new(storage):
            self.extend(first)
            return
        recorded = read_json(storage, _JOB)
        check_format(recorded, storage.uri)
        check_timezone(recorded["timezone"], timezone, storage.uri)
        self.order = tuple(recorded["reading"])

    def extend(self, streams: Iterable[str]) -> None:
        with self._lock:
            new = [name for name in streams if name not in self.order]
            if new:
                order = (*self.order, *new)
                write_json(self._storage, _JOB, {"format": FORMAT, "timezone": self._timezone, "reading": [*order]})
                self.order = order
