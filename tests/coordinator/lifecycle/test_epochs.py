"""Epochs are ranges of batches; none begins without a batch."""

from __future__ import annotations

from clash.coordinator.lifecycle.epochs import Epoch, next_epoch


def test_by_batches() -> None:
    epoch, numbers = None, []
    for batch in range(5):
        epoch = next_epoch(epoch, 2, batch, 0)
        numbers.append(epoch.number)
    assert numbers == [0, 0, 1, 1, 2]


def test_by_time_and_silence() -> None:
    first = next_epoch(None, "1 second", 7, 500)
    assert first == Epoch(0, 7, 500)
    assert next_epoch(first, "1 second", 8, 1_000_499) is first
    assert next_epoch(first, "1 second", 8, 60_000_000) == Epoch(1, 8, 60_000_000)


def test_a_start_may_begin_an_epoch() -> None:
    assert next_epoch(Epoch(3, 5, 0), 10, 6, 0, force=True) == Epoch(4, 6, 0)
