"""The driver's free memory goes back to the system now and then."""

from __future__ import annotations

import pytest

from clash.spark import free_memory
from clash.spark.free_memory import FreeMemory


def test_it_is_returned_once_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = [1000.0], list[int]()
    monkeypatch.setattr(free_memory.time, "monotonic", lambda: now[0])
    memory = FreeMemory()
    monkeypatch.setattr(memory, "_trim", calls.append)
    for step in (1.0, 58.0, 2.0, 1.0, 60.0):
        now[0] += step
        memory.release()
    assert calls == [0, 0]
