"""The result files of batches up to the last committed one, wherever they are: published, or staged and about to be.

Result files have names of their own and are not deleted by the job, so they need no holding; a staged one may move to its place meanwhile.
Files for functions are deleted when the next batch is decided: these are mapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from clash.coordinator.control.folder_owner import MARKER
from clash.errors import OptionError
from clash.operations.opened_checkpoint import OpenedCheckpoint
from clash.operations.result_folders import ResultFolder, known_folders, place_of
from clash.protocol.reports import ResultFile
from clash.protocol.result_files import HANDOVER, file_location, origin_of, staged_path
from clash.state.storage import LocalStorage, open_storage


@dataclass(frozen=True)
class HeldFolder:
    folder: ResultFolder
    names: tuple[str, ...]
    """Of result files, and of the marker."""
    lost: tuple[ResultFile, ...] = ()
    """Files of the last batch that are neither staged nor published."""
    contents: Mapping[str, memoryview] = field(default_factory=dict)
    """By name, of files that the job may delete meanwhile."""

    def places(self, name: str) -> tuple[Path, Path]:
        """Where a file may be: it is staged first, and published then."""
        return self._place(staged_path(self.folder.folder, name)), self._place(self.folder.path_of(name))

    def _place(self, path: str) -> Path:
        storage = self.folder.storage
        if not isinstance(storage, LocalStorage):
            raise OptionError("only local folders can be backed up", self.folder.shown, STOP_AND_COPY)
        return Path(storage.root, path)


STOP_AND_COPY = "stop the job, then copy the checkpoint and all its result folders with the tools of that store"


def hold_folders(opened: OpenedCheckpoint) -> tuple[HeldFolder, ...]:
    """All folders that the checkpoint knows, each with its files of batches up to the last manifest."""
    last_files = _files_of_last_batch(opened)
    handovers = _handovers(opened, last_files)
    known = {place_of(folder.storage.uri, folder.folder): folder for folder in known_folders(opened)}
    held = []
    for place, folder in {**handovers, **known}.items():
        names = [
            name
            for name in folder.storage.list(folder.folder)
            if (origin := origin_of(name)) and origin.batch < opened.manifest.batch and folder.is_of(opened.identity, origin)
        ]
        lost, contents = [], {}
        for file in last_files.get(place, ()):
            staged, published = staged_path(folder.folder, file.name), folder.path_of(file.name)
            found = next((path for path in (staged, published) if folder.storage.exists(path)), None)
            if found is None:
                lost.append(file)
                continue
            names.append(file.name)
            if place in handovers:
                contents[file.name] = memoryview(folder.storage.read(found))
        if folder.owner is not None and folder.owner.checkpoint == opened.identity:
            names.append(MARKER)
        if names or lost:
            held.append(HeldFolder(folder, tuple(names), tuple(lost), contents))
    return tuple(held)


def _files_of_last_batch(opened: OpenedCheckpoint) -> Mapping[tuple[str, str], list[ResultFile]]:
    """By folder."""
    files: dict[tuple[str, str], list[ResultFile]] = {}
    if opened.manifest.files:
        queries = opened.log.read(opened.manifest.generation).setup.queries
        sinks = {query.name: query.result_location(opened.storage.uri) for query in queries}
        for file in opened.manifest.files:
            files.setdefault(place_of(*file_location(opened.storage.uri, sinks, file.destination)), []).append(file)
    return files


def _handovers(opened: OpenedCheckpoint, last_files: Mapping[tuple[str, str], list[ResultFile]]) -> dict[tuple[str, str], ResultFolder]:
    """Folders of files for functions: only those of the last batch are there, until the next one is decided."""
    return {
        (uri, folder): ResultFolder(f"query {files[0].destination}", files[0].destination, open_storage(opened.storage.uri), folder)
        for (uri, folder), files in last_files.items()
        if folder.startswith(HANDOVER)
    }
