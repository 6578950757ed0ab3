"""Containers of an older layout, read as if their rows had been moved into today's.

Invariant: of every row under an older layout, exactly those workers see a copy that would have one under today's layout. Committed
containers never change and all workers can read all of them, so nothing is sent: a worker opens the slots in which rows of its own may be.
Of several copies under an older layout one is enough, as each has all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from clash.model.layout import ALL, ONE, Layout
from clash.protocol.containers import ALL_SLOTS, ContainerRecord, LayoutVersion


def containers_for_worker(
    version: LayoutVersion, today: Layout, workers: int, worker: int, records: Iterable[ContainerRecord]
) -> Iterator[tuple[ContainerRecord, bool]]:
    """The containers of an older layout in which rows of this worker may be, and whether rows of other workers are among them.
    `workers`: 1 if one task does the work of all of them."""
    if today == ONE and worker != 0:
        return
    copy = version.layouts.index(today) if today in version.layouts else 0
    first, last, mixed = _slot_range(version.layouts[copy], version.slots, today, workers, worker)
    is_divided = today.kind == "hash" and workers > 1
    for record in records:
        if record.copy == copy and record.slot == ALL_SLOTS:
            yield record, is_divided
        elif record.copy == copy and first <= record.slot <= last:
            yield record, mixed and is_divided


def _slot_range(layout: Layout, slots: int, today: Layout, workers: int, worker: int) -> tuple[int, int, bool]:
    """The first and the last slot with rows of the worker, and whether rows of others are in them."""
    if layout == ALL:
        slot = worker % slots  # every slot has all rows
        return slot, slot, True
    if layout == today and layout.column is not None and not layout.hot:  # rows with hot keys are anywhere
        # Slots are ranges of the hash: however many there are, those that overlap with a worker's range are neighbours.
        return worker * slots // workers, ((worker + 1) * slots - 1) // workers, slots % workers != 0
    return 0, slots - 1, True
