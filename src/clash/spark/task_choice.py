"""Whether a batch is run as one task, or as tasks of several stages: whichever is expected to end first.

One task does the work of all workers, needs one stage, and its messages stay in memory. Tasks of several stages share the work that its
rows cause; but each worker does what a batch costs besides, every stage has to be scheduled, and every message written and read. The
results are the same.
"""

from __future__ import annotations

_STAGE_SECONDS = 0.017  # to schedule one more stage, to write its messages and to read them
_PARALLEL_SECONDS = 0.010  # to start more than one task
_ROW_SECONDS = 3e-6  # of work, before any batch was measured
_MAX_FIXED_SECONDS = 0.1  # of work that a batch causes however few rows it has
_MAX_ROWS = 1 << 16  # of a batch in one task, whose messages are all in memory
_STEP = 1.5  # an estimate changes by this factor at most, as a batch may have waited for others
_STICKINESS = 1.25  # the choice changes only if the other one is better by this factor


class TaskChoice:
    """Learns from committed batches what a row costs, and what a batch costs besides."""

    def __init__(self) -> None:
        self._row_seconds = _ROW_SECONDS
        self._fixed_seconds = _MAX_FIXED_SECONDS
        self._is_one_task = True

    def is_one_task(self, rows: int, rounds: int, cores: int) -> bool:
        """The choice for a batch of so many rows."""
        if rows > _MAX_ROWS:
            self._is_one_task = False
        elif cores == 1:
            self._is_one_task = True
        else:
            gain = rows * self._row_seconds * (1 - 1 / cores)  # of running in parallel
            cost = _PARALLEL_SECONDS + _STAGE_SECONDS * rounds
            self._is_one_task = gain < cost * (_STICKINESS if self._is_one_task else 1 / _STICKINESS)
        return self._is_one_task

    def observe(self, rows: int, work: float) -> None:
        """A batch is committed. `work`: the seconds that its tasks took, added up."""
        self._fixed_seconds = min(self._fixed_seconds, work)
        if rows:
            measured = (work - self._fixed_seconds) / rows
            self._row_seconds = min(max(measured, self._row_seconds / _STEP), self._row_seconds * _STEP)
