"""Lets a run's batch go on soon while another thread of the driver computes.

A batch calls functions of Arrow and of the system hundreds of times, each of which lets other threads have the interpreter. A thread that
computes, such as one that plans a query that is added, keeps it for Python's switch interval after that, 5 ms: hundreds of times a batch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_SECONDS = 0.0005  # often enough for a batch, and a thread that computes loses less than a percent
_lock = Lock()
_runs = 0
_before = 0.0


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Python's switch interval is short while at least one run is in this context; then it is what it was before."""
    global _runs, _before  # noqa: PLW0603 the interval is one for the whole process
    with _lock:
        if _runs == 0:
            _before = sys.getswitchinterval()
            sys.setswitchinterval(min(_before, _SECONDS))
        _runs += 1
    try:
        yield
    finally:
        with _lock:
            _runs -= 1
            if _runs == 0:
                sys.setswitchinterval(_before)
