"""The folders that have results and late rows of a checkpoint, and whose the files in them are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from clash.coordinator.control.folder_owner import FolderOwner, read_owner
from clash.coordinator.control.job import SinkSpec
from clash.coordinator.control.setup import LiveQuery
from clash.operations.opened_checkpoint import OpenedCheckpoint
from clash.protocol.result_files import LATE, REJECTED, STAGING, FileOrigin, origin_of, published_path, staged_path, whose_files
from clash.state.paths import absolute_location
from clash.state.storage import Storage, open_storage

_RESULTS = "results/"


@dataclass(frozen=True)
class ResultFolder:
    whose: str
    """For messages: the query, or the stream whose late or rejected rows they are."""
    query: str | None
    """None for rows of a stream, and for folders that a user names."""
    storage: Storage
    folder: str

    @property
    def shown(self) -> str:
        return self.storage.label(self.folder).rstrip("/")

    def path_of(self, name: str) -> str:
        """Of a published file."""
        return published_path(self.folder, name)

    def files(self) -> Iterator[tuple[str, FileOrigin]]:
        """The paths of its result files, published and staged, each with what its name says."""
        for path_of, names in (
            (published_path, self.storage.list(self.folder)),
            (staged_path, self.storage.list(published_path(self.folder, STAGING))),
        ):
            for name in names:
                origin = origin_of(name)
                if origin is not None:
                    yield path_of(self.folder, name), origin

    def is_of(self, identity: str, origin: FileOrigin) -> bool:
        """Whether a file in it is of the checkpoint. Names of format 6 do not say it: there the folder's marker does, and folders of
        format 6 have none."""
        if origin.checkpoint is not None:
            return origin.checkpoint == identity
        return not identity if self.owner is None else self.owner.checkpoint == identity

    @cached_property
    def owner(self) -> FolderOwner | None:
        """Whom its marker names."""
        return read_owner(self.storage, self.folder)


def known_folders(checkpoint: OpenedCheckpoint, given: Iterable[str] = ()) -> list[ResultFolder]:
    """The folders of all queries of the checkpoint, live and former, and of rows of streams; and those that a user names."""
    found: dict[tuple[str, str], ResultFolder] = {}

    def add(whose: str, query: str | None, storage: Storage, folder: str) -> None:
        found.setdefault(place_of(storage.uri, folder), ResultFolder(whose, query, storage, folder))

    for live in known_queries(checkpoint):
        if not live.request.sink.is_function:
            uri, folder = live.result_location(checkpoint.storage.uri)
            add(f"query {live.name}", live.name, open_storage(uri), folder)
    for kind in (_RESULTS, LATE, REJECTED):
        names = {name.partition("/")[0] for name in checkpoint.storage.list(kind.rstrip("/"), recursive=True)}
        for name in sorted(names):
            is_query = kind == _RESULTS
            add(whose_files(name if is_query else f"{kind}{name}"), name if is_query else None, checkpoint.storage, f"{kind}{name}")
    for uri in given:
        add("given folder", None, open_storage(absolute_location(uri)), "")
    return list(found.values())


def place_of(uri: str, folder: str) -> tuple[str, str]:
    """The storage and the folder in one spelling, whichever way a path is written."""
    return SinkSpec("parquet", uri).folder or "", folder


def known_queries(checkpoint: OpenedCheckpoint) -> list[LiveQuery]:
    """The queries of all generations that are recorded, newest first, and those that ended before."""
    log = checkpoint.log
    recorded = [live for number in reversed(log.numbers()) for live in log.read(number).setup.queries]
    ended = {name for block in log.history.blocks() for name in block.names}
    return [*recorded, *(live for name in sorted(ended) if (live := log.history.query(name)) is not None)]
