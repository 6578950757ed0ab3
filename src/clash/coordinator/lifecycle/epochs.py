"""Epochs: ranges of micro-batches, counted in batches or in the time that the batches are recorded with.

Invariant: an epoch begins with a batch, and the decision of the batch says which; a re-run finds it there. Where no batch comes for long,
no epochs are made up: the next batch begins the next one.
"""

from __future__ import annotations

from typing import NamedTuple

from clash.model.durations import parse_duration


class Epoch(NamedTuple):
    number: int
    batch: int
    """Its first batch."""
    now: int
    """The time of its first batch in microseconds."""


def next_epoch(last: Epoch | None, length: str | int, batch: int, now: int, force: bool = False) -> Epoch:
    """The epoch of a batch, after that of the batch before; `force` begins a new one. `length`: a duration, or a number of batches."""
    if last is None:
        return Epoch(0, batch, now)
    over = batch - last.batch >= length if isinstance(length, int) else now - last.now >= parse_duration(length, "the epoch")
    return Epoch(last.number + 1, batch, now) if over or force else last
