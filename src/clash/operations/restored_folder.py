"""A result folder that a restore puts back as it was with the snapshot: what is missing is copied, what is not in it is moved aside.

Invariant: afterwards the folder has exactly the snapshot's files of this checkpoint. Files of others stay where they are; a folder that
belongs to others is refused.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from clash.coordinator.control.folder_owner import MARKER, STAMP, FolderOwner, mark
from clash.errors import CheckpointError
from clash.operations.backup_record import Snapshot, StoredFile, StoredFolder, folder_path
from clash.operations.durable_files import content_of, file_crc, naming
from clash.operations.result_folders import ResultFolder
from clash.protocol.result_files import origin_of
from clash.state.storage import LocalStorage


@dataclass(frozen=True)
class FolderPlan:
    source: Path
    """The folder in the snapshot."""
    stored: StoredFolder
    place: Path
    missing: tuple[str, ...]
    """Names of files to copy."""
    extra: tuple[str, ...]
    """Paths of files to move aside, in the folder."""
    aside: Path
    owner: FolderOwner | None
    """Whom it belongs to afterwards; None for a checkpoint of format 6, which has no markers."""

    def carry_out(self) -> None:
        storage = LocalStorage(self.place)
        with naming("written", self.place):
            self.place.mkdir(parents=True, exist_ok=True)
        for path in self.extra:
            with naming("moved", self.place / path):
                self.aside.mkdir(exist_ok=True)
                (self.place / path).rename(self.aside / Path(path).name)
        for name in self.missing:
            with naming("read", self.source / name):
                content = content_of(self.source / name)
            storage.write(name, [content], durable=True)
        if self.owner is None:
            storage.delete([MARKER, STAMP])
        else:
            mark(storage, "", self.owner, renew=True)


def plan_folder(snapshot: Snapshot, number: int, place: Path, present: str | None, time: str) -> FolderPlan:
    """Changes nothing. `present`: the identity of the checkpoint that is in the place of the one to restore. `time`: of the restore."""
    record = snapshot.record
    stored = record.folders[number]
    folder = ResultFolder(f"query {stored.query}", stored.query, LocalStorage(place), "")
    identities = {record.identity or present}  # a checkpoint of format 6 gets its identity when it is upgraded
    _refuse_foreign(folder, identities, record.identity == "")
    prefix = f"{folder_path(number)}/"
    wanted = {
        path.removeprefix(prefix): file for path, file in record.files.items() if path.startswith(prefix) and path.endswith(".parquet")
    }
    own = [
        path
        for path, origin in folder.files()
        if origin.checkpoint in identities or (origin.checkpoint is None and _has_format_6(folder, record.identity))
    ]
    whole = {path for path in own if path in wanted and _is_same(place / path, wanted[path])}
    return FolderPlan(
        source=snapshot.path / folder_path(number),
        stored=stored,
        place=place,
        missing=tuple(name for name in wanted if name not in whole),
        extra=tuple(path for path in own if path not in whole),
        aside=place / f"_before-restore-{time}",
        owner=FolderOwner(record.identity, stored.query) if record.identity else None,
    )


def _has_format_6(folder: ResultFolder, identity: str) -> bool:
    """Whether files whose names do not say it are of the checkpoint: the marker says it, and folders of format 6 have none."""
    return not identity or folder.owner is not None


def _refuse_foreign(folder: ResultFolder, identities: Collection[str | None], is_format_6: bool) -> None:
    owner = folder.owner
    if owner is not None and owner.checkpoint not in identities:
        detail = f"{folder.whose}, {folder.shown}: it has results of query {owner.query} of checkpoint {owner.checkpoint}"
    else:
        origins = {name: origin_of(name) for name in folder.storage.list()}
        foreign = [
            name
            for name, origin in origins.items()
            if origin is not None and (not is_format_6 if origin.checkpoint is None else origin.checkpoint not in identities)
        ]
        if owner is not None or not foreign:
            return
        detail = f"{folder.whose}, {folder.shown} has {len(foreign)} result files, such as {foreign[0]}"
    hint = f"move it away, or put the results elsewhere: --results {folder.query}=FOLDER"
    raise CheckpointError("a result folder belongs to another checkpoint", detail, hint)


def _is_same(path: Path, stored: StoredFile) -> bool:
    return path.stat().st_size == stored.bytes and file_crc(path) == stored.crc32
