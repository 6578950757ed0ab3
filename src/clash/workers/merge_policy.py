"""When containers of a store are merged: by what it costs to write their rows once more, and to probe them in every batch.

A container that is probed costs something in every batch, for opening it and per row that looks into it without finding anything. A merge
costs once, per row that it writes. Hence small containers of stores that many rows probe are merged at once, and large ones of stores that
few rows probe only when they are many: then a row is written logₖ(state / batch) times for a large k.
"""

from __future__ import annotations

from typing import NamedTuple

from clash.protocol.batch import BatchSpec

# Nanoseconds, measured on TPC-H: to write and index a row; to look for a row in a container that does not have it
_WRITE, _PROBE = 350, 20
_MAX_MERGED = 16  # a merge of more would make one batch of several very long; and each container is a file that is mapped


class MergePolicy(NamedTuple):
    """What is merged with new rows of a store."""

    cheap_rows: int
    """A container of at most so many rows costs less to write in every batch than to probe: it is merged with what comes next."""
    merged_at_once: int
    """How many containers of similar size, the new one included, are merged into one."""


def merge_policy(spec: BatchSpec, store: str, rows: int) -> MergePolicy:
    """The policy for a task that has so many new rows for a store. Where it is not known how many rows probe the store, in the first batch
    after a start, only what costs nothing is merged."""
    probing = spec.probing.get(store)
    container = spec.tuning.container_cost + _PROBE * int(probing or 0) // spec.tasks  # costs so much per batch
    if probing is None or container == 0:
        return MergePolicy(container // _WRITE, _MAX_MERGED)
    return MergePolicy(container // _WRITE, min(_MAX_MERGED, max(2, 1 + _WRITE * rows // container)))
