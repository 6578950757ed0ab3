"""What the checkpoint has of outer queries: a folder for each, with a record of the query and Spark's state.

Invariant: the record is written before Spark begins, and deleted after the state: a folder without a record has nothing that counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clash.codec import Codec
from clash.coordinator.control.setup import LiveQuery
from clash.errors import CheckpointError
from clash.plan.codecs import SHARED
from clash.state.json_records import read_record, write_record
from clash.state.storage import Storage, open_storage

_RECORD = "query.json"
_STATE = "spark"


@dataclass(frozen=True)
class _Record:
    place: str
    """Where the checkpoint is: Spark knows files by their full names."""
    query: LiveQuery


_CODEC: Codec[_Record] = Codec(_Record, SHARED, compact=True)


class OuterRecords:
    """`checkpoint`: the folder of the whole checkpoint. An outer query is known by the name of its folder, its life."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = checkpoint
        self._storage: Storage = open_storage(f"{checkpoint}/outer")

    def state(self, life: str) -> str:
        """The folder of Spark's checkpoint."""
        return f"{self._checkpoint}/outer/{life}/{_STATE}"

    def write(self, life: str, query: LiveQuery) -> None:
        record = _Record(self._checkpoint, query)
        path = f"{life}/{_RECORD}"
        if not self._storage.exists(path) or read_record(self._storage, path, _CODEC) != record:
            write_record(self._storage, path, _CODEC, record)

    def read(self) -> Iterator[tuple[str, LiveQuery]]:
        """Every life that has a record. CheckpointError if the checkpoint is not where it was: Spark would take files for new ones that it
        has read."""
        for name in sorted(self._storage.list(recursive=True)):
            life, _, file = name.partition("/")
            if file == _RECORD:
                record = read_record(self._storage, name, _CODEC)
                if record.place != self._checkpoint:
                    raise CheckpointError(
                        "the checkpoint was moved, and has an outer query",
                        f"query {record.query.name}: it was at {record.place}, and is at {self._checkpoint}",
                        "move it back; or start without the query there, and declare it anew here",
                    )
                yield life, record.query

    def delete(self, life: str) -> None:
        """The state first, the record last."""
        names = [f"{life}/{name}" for name in self._storage.list(life, recursive=True) if name != _RECORD]
        self._storage.delete(names)
        self._storage.delete([f"{life}/{_RECORD}"])
