"""The state after one batch of a job that may be running: all files that make it up, held so that the job cannot take them away.

A job writes the manifest of a batch before it deletes what only earlier batches needed. So what the newest manifest lists is all there
until the next manifest is; files that are mapped by then stay readable when they are deleted. Where one was deleted first, the next
manifest is taken. Containers are mapped, not read: holding thousands of them takes milliseconds.

Invariant: what is held is what a process that was killed after the commit of the batch would have left: a start over it continues exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from clash.coordinator.checkpoint import batch_decision, generation_log
from clash.coordinator.checkpoint import manifest as manifests
from clash.coordinator.checkpoint.batch_decision import read_decision
from clash.coordinator.checkpoint.format_6 import Format6View
from clash.coordinator.checkpoint.generation_log import GenerationLog, generation_path
from clash.coordinator.checkpoint.manifest import Manifest, manifest_path
from clash.coordinator.checkpoint.source_registry import PATH
from clash.coordinator.checkpoint.spark_half import COMMITS, OFFSETS, SparkHalf
from clash.coordinator.control.folder_owner import MARKER
from clash.coordinator.publication import lost_file
from clash.coordinator.verification import verify_files
from clash.errors import CheckpointError, ClashError, StateError
from clash.operations.held_folders import HeldFolder, hold_folders
from clash.operations.opened_checkpoint import OpenedCheckpoint, open_checkpoint
from clash.operations.pinned_storage import PinnedStorage
from clash.protocol import tables
from clash.protocol.tables import paths_of
from clash.state.json_records import record_numbers
from clash.state.storage import ArrowStorage, HdfsStorage, Storage, open_storage

_MAX_TRIES = 50
_STATISTICS = "statistics.json"
_T = TypeVar("_T")


@dataclass(frozen=True)
class PinnedCheckpoint:
    opened: OpenedCheckpoint
    clash: PinnedStorage
    """Our half, as it is on disk."""
    spark: PinnedStorage
    """Spark's half."""
    folders: tuple[HeldFolder, ...]
    """The result files and late rows of batches up to the last one."""

    @property
    def manifest(self) -> Manifest:
        return self.opened.manifest

    @property
    def view(self) -> Storage:
        """Our half as it is read: records of format 6 get checksums."""
        return _view(self.opened, self.clash)

    def verify(self) -> None:
        """StateError or CheckpointError unless a start would accept both halves, as far as that can be known without the program."""
        view = self.view
        decision = read_decision(view, self.manifest.batch + 1)
        self.opened.log.check(self.manifest.generation)
        verify_files(view, self.manifest, self.opened.log, decision, is_new=False)
        half = SparkHalf(self.spark.label("").rstrip("/"), self.spark)
        half.check(self.manifest.batch, self.manifest.seal, None if decision is None else decision.seal)


def of_one_batch(location: str, attempt: Callable[[PinnedCheckpoint], _T], *, with_next: bool = False, with_results: bool = True) -> _T:
    """What `attempt` makes of the state after the last batch. While the job commits batches, one that fails is made again. `with_next`:
    also with the attempts at the next batch, as a start finds them. `with_results`: whether result folders are looked at."""
    storage, failed = open_storage(open_checkpoint(location).storage.uri), None
    for _ in range(_MAX_TRIES):
        before = newest_batch(storage)
        try:
            return attempt(_pin(open_checkpoint(location), with_next, with_results))
        except ClashError as error:
            if before == failed == newest_batch(storage):  # once may be by chance: generations are compacted after the commit
                raise
            failed, last = before, error
    raise CheckpointError(
        "the job commits batches faster than its checkpoint can be read",
        f"{storage.label('').rstrip('/')}: {_MAX_TRIES} attempts; of the last one, at batch {before}: {last.what}, {last.detail}",
        "try again when the job has less to do, or stop it first",
    )


def newest_batch(storage: Storage) -> int:
    """The batch of the newest manifest, by its name alone; -1 if there is none."""
    return max(record_numbers(storage, manifests.FOLDER), default=-1)


def _pin(opened: OpenedCheckpoint, with_next: bool, with_results: bool) -> PinnedCheckpoint:
    storage, manifest = open_storage(opened.storage.uri), opened.manifest
    files = {path: storage.read(path, mapped=False) for path in _records(storage, manifest, with_next)}
    containers = {record.path for record in manifest.containers} | paths_of(manifest.tables)
    others = {f"{folder}/{name}" for folder in _OF_NEXT for name in storage.list(folder, recursive=True)} if with_next else set()
    if isinstance(storage, (ArrowStorage, HdfsStorage)):
        others |= containers  # they would be loaded, not mapped
    else:
        files |= {path: storage.read(path) for path in containers}
    clash = PinnedStorage(storage, files, others)
    opened = replace(opened, log=GenerationLog(_view(opened, clash)))
    folders = hold_folders(opened) if with_results else ()
    spark = _pin_spark_half(open_storage(f"{opened.location}/spark"), manifest.batch + 1 if with_next else manifest.batch)
    _refuse_lost(manifest, folders, spark)
    return PinnedCheckpoint(opened, clash, spark, folders)


def _view(opened: OpenedCheckpoint, clash: PinnedStorage) -> Storage:
    return clash if opened.identity else Format6View(clash)


_OF_NEXT = (batch_decision.FOLDER, "plans", "state", tables.FOLDER)


def _records(storage: Storage, manifest: Manifest, with_next: bool) -> Iterator[str]:
    yield PATH
    if manifest.batch >= 0:
        yield manifest_path(manifest.batch)
    yield from (name for name in (_STATISTICS, MARKER) if storage.exists(name))
    later = {generation_path(number) for number in record_numbers(storage, generation_log.FOLDER) if number > manifest.generation}
    for name in storage.list(generation_log.FOLDER, recursive=True):
        path = f"{generation_log.FOLDER}/{name}"
        if with_next or path not in later:
            yield path


def _pin_spark_half(storage: Storage, last: int) -> PinnedStorage:
    """Without the logs' entries for batches after `last`. Spark removes older entries at any time: the seal says which are needed."""
    files = {}
    for name in storage.list(recursive=True):
        folder, _, entry = name.rpartition("/")
        is_later = folder in (OFFSETS, COMMITS) and entry.isdecimal() and int(entry) > last
        if not is_later and not entry.startswith(".") and not entry.endswith(".crc"):
            try:
                files[name] = storage.read(name, mapped=False)
            except StateError:
                if storage.exists(name):
                    raise
    return PinnedStorage(storage, files)


def _refuse_lost(manifest: Manifest, folders: tuple[HeldFolder, ...], spark: PinnedStorage) -> None:
    """A file of the last batch that is neither staged nor published was taken away by a reader, if Spark has committed the batch; then
    no start publishes it again."""
    if not spark.exists(f"{COMMITS}/{manifest.batch}"):
        for held in folders:
            for file in held.lost:
                raise lost_file(file, manifest.batch, held.folder.storage.label(held.folder.path_of(file.name)))
