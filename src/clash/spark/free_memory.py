"""Returns memory of the driver that is free to the system.

A driver that runs for weeks plans, reads reports and writes records with objects of all sizes. What malloc has free between objects that
stay is not returned by itself: only what is free at the end of its heap is. Python workers keep such memory on purpose, see `configure`.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa

_INTERVAL = 60.0  # seconds; one call takes some milliseconds


class FreeMemory:
    def __init__(self) -> None:
        self._last = time.monotonic()
        self._trim: Callable[[int], int] | None = None
        with suppress(AttributeError, OSError):  # not glibc
            self._trim = ctypes.CDLL(None).malloc_trim

    def release(self) -> None:
        """Between two batches; does something once a minute."""
        if time.monotonic() - self._last < _INTERVAL:
            return
        pa.default_memory_pool().release_unused()
        if self._trim is not None:
            self._trim(0)
        self._last = time.monotonic()
