"""Whom a folder of results belongs to: one query of one checkpoint.

Invariant: a query writes to a folder, and files in it are swept or moved, only while the marker in it names the checkpoint and the query.
No file of a batch after the last committed one is published, so such files are of another life of the checkpoint: one that was restored
from an older copy would write the same results again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from clash.codec import Codec
from clash.coordinator.control.job import SinkSpec
from clash.coordinator.control.setup import LiveQuery, Setup
from clash.errors import CheckpointError, OptionError, StateError
from clash.protocol.result_files import STAGING, FileOrigin, destinations_of_stream, origin_of, published_path, whose_files
from clash.state.json_records import read_record, write_record
from clash.state.storage import LocalStorage, Storage, file_stamp, open_storage

MARKER = "_clash.json"
STAMP = "_clash.stamp.json"
_LOG = logging.getLogger("clash")
_Claim = tuple[str, str, str]  # a query, the storage of its results, and the folder in it
_ELSEWHERE = 'give the query another folder: sink=clash.sinks.Parquet("…")'


@dataclass(frozen=True)
class FolderOwner:
    checkpoint: str
    """Its identity."""
    query: str | None
    """None for the checkpoint's own folder."""


_CODEC: Codec[FolderOwner] = Codec(FolderOwner)
_STAMP_CODEC: Codec[tuple[int, int]] = Codec(tuple[int, int])


@dataclass(frozen=True)
class ResultFolders:
    """The folders of one checkpoint. `last`: the last committed batch, -1 for none."""

    uri: str
    identity: str
    last: Callable[[], int]
    adopts: bool = False
    """Whether files are the checkpoint's that do not say whose they are, in folders without a marker: in format 6 none has one."""
    _stamps: dict[_Claim, tuple[int, int] | None] = field(default_factory=dict)
    """By claim, the stamp of the folder's marker as this run has left it; None where there are no stamps."""

    def check_at_start(self, queries: Iterable[LiveQuery], streams: Iterable[str], published: Mapping[str, tuple[str, int]]) -> None:
        """Raises if a folder of a query that has run is missing, belongs to others, has results of batches to come, or is a copy that lacks
        some. `published`: by destination, the folder and how many files were published there."""
        root = open_storage(self.uri)
        is_copied = root.exists(MARKER) and read_record(root, MARKER, _CODEC).checkpoint == self.identity and is_copy(root, "")
        for live in queries:
            if not live.request.sink.is_function:
                has_run = live.batch is not None and live.batch <= self.last()
                owner = self._check_query(live, has_run)
                storage, folder = self._location(live)
                if has_run and owner is not None and is_copy(storage, folder):
                    self._refuse_short(f"query {live.name}", storage, folder, published.get(live.name))
        for destination in (name for stream in streams for name in destinations_of_stream(stream)):
            self._refuse_later(whose_files(destination), root, destination)
            if is_copied:
                self._refuse_short(whose_files(destination), root, destination, published.get(destination))

    def check_new(self, after: Setup, *before: Setup) -> None:
        """Raises if a folder that a query of `after` writes to, and none of its name in `before` does, belongs to others."""
        known = {(live.name, live.request.sink.folder) for setup in before for live in setup.queries if live.batch is not None}
        for live in after.queries:
            if not live.request.sink.is_function and (live.name, live.request.sink.folder) not in known:
                self._check_query(live, has_run=False)

    def claim_at_start(self, queries: Iterable[LiveQuery]) -> None:
        """Marks the folders as theirs, and the checkpoint's own; `check_at_start` has found that they may have them. A checkpoint that is a
        copy marks them anew, so that a run of the original notices it."""
        root = open_storage(self.uri)
        self._claim(queries, renew=root.exists(MARKER) and is_copy(root, ""))
        mark(root, "", FolderOwner(self.identity, None))

    def claim(self, queries: Iterable[LiveQuery]) -> None:
        """The same for the queries of a new generation; `check_new` has found that those which begin may have their folders."""
        self._claim(queries, renew=False)

    def _claim(self, queries: Iterable[LiveQuery], renew: bool) -> None:
        """Each folder once in a run: later, publishing notices what happens to it."""
        for live in queries:
            if not live.request.sink.is_function and self._claim_of(live) not in self._stamps:
                self._mark(live, renew)

    def _mark(self, live: LiveQuery, renew: bool) -> None:
        storage, folder = self._location(live)
        mark(storage, folder, FolderOwner(self.identity, live.name), renew)
        self._stamps[self._claim_of(live)] = file_stamp(storage, published_path(folder, MARKER))

    def keep(self, queries: Iterable[LiveQuery]) -> None:
        """Forgets the stamps of all other folders, which no batch writes to any more: a run may see any number of queries."""
        for former in self._stamps.keys() - set(map(self._claim_of, queries)):
            del self._stamps[former]

    def refuse_taken(self, queries: Iterable[LiveQuery]) -> None:
        """Raises if another run has marked one of the folders since this one did: a run of a copy of the checkpoint. A marker that was
        removed is written again."""
        for live in queries:
            storage, folder = self._location(live)
            marker, stamp = published_path(folder, MARKER), self._stamps.get(self._claim_of(live))
            if stamp is None:
                continue
            if not storage.exists(marker):
                what = "query %s: %s was emptied while the run goes on"
                _LOG.warning(what, live.name, _shown(storage, folder), extra={"query": live.name})
                self._mark(live, renew=True)
            elif file_stamp(storage, marker) != stamp:
                raise CheckpointError(
                    "another run has taken a result folder",
                    f"query {live.name}: {storage.label(marker)} has changed since this run marked the folder",
                    "stop one of the two runs; a copy of a checkpoint needs result folders of its own",
                )

    def _check_query(self, live: LiveQuery, has_run: bool) -> FolderOwner | None:
        """Whom the folder belongs to, as far as that is marked."""
        if live.request.sink.folder is not None:
            self._refuse_overlap(live.name, live.request.sink.folder)
        storage, folder = self._location(live)
        owner = read_owner(storage, folder)
        if owner is None:
            self._check_unmarked(live, storage, folder, has_run)
        elif owner.checkpoint != self.identity:
            raise CheckpointError(
                "a result folder belongs to another checkpoint",
                f"query {live.name}, {_shown(storage, folder)}: it has results of query {owner.query} of checkpoint {owner.checkpoint}, "
                f"this one is {self.identity}",
                f"{_ELSEWHERE}; to start anew, remove that folder, too",
            )
        elif owner.query != live.name and any(origins(storage, folder)):
            raise CheckpointError(
                "a result folder belongs to another query",
                f"query {live.name}, {_shown(storage, folder)}: it has results of query {owner.query}",
                f"{_ELSEWHERE}, or move the files in this one away",
            )
        self._refuse_later(f"query {live.name}", storage, folder)
        return owner

    def _refuse_overlap(self, query: str, folder: str) -> None:
        checkpoint = str(SinkSpec("parquet", self.uri.rstrip("/").removesuffix("/clash")).folder)
        for outer, inner in ((checkpoint, folder), (folder, checkpoint)):
            if f"{inner}/".startswith(f"{outer}/"):
                raise OptionError("a result folder and the checkpoint overlap", f"query {query}: {folder} and {checkpoint}", _ELSEWHERE)

    def _check_unmarked(self, live: LiveQuery, storage: Storage, folder: str, has_run: bool) -> None:
        """A folder that no checkpoint has marked: new, emptied, or of an older version of clash."""
        own = (self.identity, None) if self.adopts else (self.identity,)
        foreign = [name for name, origin in origins(storage, folder) if origin.checkpoint not in own]
        if foreign:
            raise CheckpointError(
                "a result folder belongs to another checkpoint",
                f"query {live.name}, {_shown(storage, folder)} has {len(foreign)} result files, such as {foreign[0]}",
                f"{_ELSEWHERE}; to start anew, remove that folder, too",
            )
        if not has_run or self.adopts:
            return
        if isinstance(storage, LocalStorage) and not Path(storage.root, folder).is_dir():
            raise StateError(
                "a result folder is missing",
                f"query {live.name} has written to {_shown(storage, folder)} since batch {live.batch}, batch {self.last()} was the last",
                "bring it back, or mount its disk; if its results are not needed any more, create it as an empty folder",
            )
        what = "query %s: %s was emptied, results up to batch %d are not in it"
        _LOG.warning(what, live.name, _shown(storage, folder), self.last(), extra={"query": live.name})

    def _refuse_later(self, what: str, storage: Storage, folder: str) -> None:
        later = [origin.batch for _, origin in origins(storage, folder) if self.is_later(origin)]
        if later:
            checkpoint = _shown(open_storage(self.uri), "").removesuffix("/clash")
            raise CheckpointError(
                "there are results of batches after the last one of the checkpoint",
                f"{what}, {_shown(storage, folder)}: {len(later)} files of batches {min(later)} to {max(later)}, "
                f"{f'batch {self.last()} is the last' if self.last() >= 0 else 'none is committed'} in {checkpoint}",
                "restore the checkpoint and its result folders from one copy, or remove just those files: "
                f"clash checkpoint rollback {checkpoint}",
            )

    def _refuse_short(self, what: str, storage: Storage, folder: str, published: tuple[str, int] | None) -> None:
        """In a folder that is a copy, no file may be missing: it may have been copied before the checkpoint was, while a run went on."""
        files = sum(1 for _, origin in origins(storage, folder) if not self.is_later(origin))
        staged = sum(1 for name in storage.list(published_path(folder, STAGING)) if (found := origin_of(name)) and not self.is_later(found))
        if published is not None and files + staged < published[1]:
            raise CheckpointError(
                "a copy of a result folder is older than the checkpoint",
                f"{what}, {_shown(storage, folder)}: {files} of {published[1]} files up to batch {self.last()} are there",
                "restore the checkpoint and its result folders from one copy; if files were taken away on purpose, remove "
                f"{MARKER} from the folder",
            )

    def is_later(self, origin: FileOrigin) -> bool:
        """Whether a file is of this checkpoint, and of a batch that it has not committed."""
        return origin.batch > self.last() and (origin.checkpoint or self.identity) == self.identity

    def _claim_of(self, live: LiveQuery) -> _Claim:
        return live.name, *live.result_location(self.uri)

    def _location(self, live: LiveQuery) -> tuple[Storage, str]:
        uri, folder = live.result_location(self.uri)
        return open_storage(uri), folder


def is_copy(storage: Storage, folder: str) -> bool:
    """Whether a marked folder is not the one that was marked, but a copy; never on storages that cannot tell. A folder whose stamp is
    missing or damaged counts as a copy."""
    stamp = file_stamp(storage, published_path(folder, MARKER))
    try:
        return stamp is not None and read_record(storage, published_path(folder, STAMP), _STAMP_CODEC) != stamp
    except StateError:
        return True


def mark(storage: Storage, folder: str, owner: FolderOwner, renew: bool = False) -> None:
    marker = published_path(folder, MARKER)
    if renew or not storage.exists(marker) or read_record(storage, marker, _CODEC) != owner or is_copy(storage, folder):
        write_record(storage, marker, _CODEC, owner)
        stamp = file_stamp(storage, marker)
        if stamp is not None:
            write_record(storage, published_path(folder, STAMP), _STAMP_CODEC, stamp)


def read_owner(storage: Storage, folder: str) -> FolderOwner | None:
    """Whom the marker of a folder names; None if it has none."""
    marker = published_path(folder, MARKER)
    return read_record(storage, marker, _CODEC) if storage.exists(marker) else None


def origins(storage: Storage, folder: str) -> Iterator[tuple[str, FileOrigin]]:
    """The result files that are published in a folder, and which batches of which checkpoints they are of."""
    for name in storage.list(folder):
        origin = origin_of(name)
        if origin is not None:
            yield name, origin


def _shown(storage: Storage, folder: str) -> str:
    return storage.label(folder).rstrip("/")
