"""Which files of a checkpoint are obsolete.

Invariant: what the last manifest lists is never obsolete, nor is the decision of the batch after it.
"""

from __future__ import annotations

from collections.abc import Iterable

from clash.coordinator.checkpoint.batch_decision import decision_path, obsolete_decisions
from clash.coordinator.checkpoint.manifest import Manifest, manifest_path, obsolete_manifests
from clash.state.storage import Storage


def obsolete_after(before: Manifest, manifest: Manifest, merged: Iterable[str]) -> list[str]:
    """What a committed batch made obsolete, known without listing a folder. `merged`: the containers that it merged into others."""
    live = {record.path for record in manifest.containers}
    containers = [path for path in {*merged, *(record.path for record in before.containers)} if path not in live]
    return [*containers, manifest_path(before.batch), decision_path(manifest.batch)]


def leftovers(storage: Storage, manifest: Manifest) -> list[str]:
    """What attempts that failed or were killed have left, found by listing the folders."""
    live = {record.path for record in manifest.containers}
    containers = [path for name in storage.list("state", recursive=True) if (path := f"state/{name}") not in live]
    return [*containers, *obsolete_manifests(storage, manifest.batch), *obsolete_decisions(storage, manifest.batch + 1)]
