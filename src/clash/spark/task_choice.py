"""Whether a batch is run as one task, or as tasks of several stages: whichever is expected to end first.

One task does the work of all workers one after the other, but needs one stage, and its messages stay in memory. Tasks of several stages
share the work, but every stage has to be scheduled, and every message written and read. The results are the same.
"""

from __future__ import annotations

_STAGE_SECONDS = 0.017  # to schedule one more stage, to write its messages and to read them
_PARALLEL_SECONDS = 0.010  # to start more than one task
_ROW_SECONDS = 3e-6  # of work, before any batch was measured
_MANY_ROWS = 20_000  # of a batch whose work is mostly that of its rows
_MAX_ROWS = 1 << 16  # of a batch in one task, whose messages are all in memory
_STICKINESS = 1.25  # the choice changes only if the other one is better by this factor


class TaskChoice:
    """Learns from committed batches what a row costs, and what a batch costs besides."""

    def __init__(self) -> None:
        self._row_seconds = _ROW_SECONDS
        self._fixed_seconds = 0.0
        self._is_one_task = True

    def is_one_task(self, rows: int, rounds: int, cores: int) -> bool:
        """The choice for a batch of so many rows."""
        if rows > _MAX_ROWS:
            self._is_one_task = False
        elif cores == 1:
            self._is_one_task = True
        else:
            work = self._fixed_seconds + rows * self._row_seconds
            gain = work * (1 - 1 / cores)  # of running in parallel
            cost = _PARALLEL_SECONDS + _STAGE_SECONDS * rounds
            self._is_one_task = gain < cost * (_STICKINESS if self._is_one_task else 1 / _STICKINESS)
        return self._is_one_task

    def observe(self, rows: int, work: float) -> None:
        """A batch is committed. `work`: the seconds that its tasks took, added up."""
        if rows >= _MANY_ROWS:
            self._row_seconds += (work / rows - self._row_seconds) / 2
        else:
            self._fixed_seconds += (max(0.0, work - rows * self._row_seconds) - self._fixed_seconds) / 2
