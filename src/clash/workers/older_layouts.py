"""Containers of an older generation, read as if they had been rewritten into today's layout.

Invariant: of every row that an older generation holds, exactly those workers see a copy that would have one under today's layout. Committed
containers never change and all workers can read all of them, so nothing is sent to where a row lies: a worker opens the slots in which
rows of its own may be. `Laid` says how a generation laid its rows out; one of its copies is enough, as each has all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from clash.protocol.batch import ContainerRecord, Laid
from clash.model.layout import ALL, ONE, Layout


def seen(
    laid: Laid, today: Layout, workers: int, worker: int, records: Iterable[ContainerRecord]
) -> Iterator[tuple[ContainerRecord, bool]]:
    """The containers of the generation in which rows of this worker may be, and whether rows of others are among them."""
    if today == ONE and worker != 0:
        return
    copy = laid.layouts.index(today) if today in laid.layouts else 0
    first, last, mixed = _slots(laid.layouts[copy], laid.slots, today, workers, worker)
    for record in records:
        if record.copy == copy and first <= record.slot <= last:
            yield record, mixed and today.kind == "hash" and workers > 1


def _slots(layout: Layout, slots: int, today: Layout, workers: int, worker: int) -> tuple[int, int, bool]:
    """The first and the last slot of interest."""
    if layout == ALL:
        at = worker % slots  # every slot has all rows
        return at, at, True
    if layout == today and layout.column is not None:
        # slots are ranges of the hash: however many there are, those that meet a worker's range lie side by side
        return worker * slots // workers, ((worker + 1) * slots - 1) // workers, slots % workers != 0
    return 0, slots - 1, True
