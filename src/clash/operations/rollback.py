"""Removes the results of batches that a checkpoint does not know, so that it can write them again.

An older copy of a checkpoint, put back over the result folders of today, finds results of batches after its last one. A start refuses
that, because it would write them a second time.

Invariant: only files of this checkpoint, of batches after its last manifest, are removed; and only while no run has the checkpoint, and if
the checkpoint itself is whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from clash.operations.opened_checkpoint import OpenedCheckpoint
from clash.operations.result_folders import ResultFolder, known_folders


@dataclass(frozen=True)
class LaterResults:
    """What a folder has of batches after the last one of the checkpoint."""

    folder: ResultFolder
    paths: tuple[str, ...]
    batches: tuple[int, int]
    """The first and the last."""


def find_later_results(checkpoint: OpenedCheckpoint, given: Iterable[str] = ()) -> list[LaterResults]:
    """`given`: folders that the checkpoint does not know, as of queries that were added after its last batch."""
    last, found = checkpoint.manifest.batch, []
    for folder in known_folders(checkpoint, given):
        later = {path: origin.batch for path, origin in folder.files() if origin.batch > last and folder.is_of(checkpoint.identity, origin)}
        if later:
            found.append(LaterResults(folder, tuple(later), (min(later.values()), max(later.values()))))
    return found


def remove_later_results(found: Iterable[LaterResults]) -> int:
    """How many files were removed."""
    removed = 0
    for later in found:
        later.folder.storage.delete(later.paths)
        removed += len(later.paths)
    return removed
