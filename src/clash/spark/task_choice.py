"""Whether a batch is run as one task, or as tasks of several stages: whichever is expected to end first.

One task does the work of all workers, needs one stage, and its messages stay in memory. Tasks of several stages share the work that rows
cause, those that are read and those that result; but each worker does what a batch costs besides, every stage has to be scheduled, and
every message written and read. A task of little work takes less time than Spark needs to start it and to return its reports: on one
machine the driver does such a batch itself. The results are the same.
"""

from __future__ import annotations

_STAGE_SECONDS = 0.017  # to schedule one more stage, to write its messages and to read them
_PARALLEL_SECONDS = 0.010  # to start more than one task
_ROW_SECONDS = 1e-6  # of work, before a large batch was measured
_MANY_ROWS = 20_000  # of a batch whose work is mostly that of its rows
MAX_ROWS = 1 << 16  # of a batch in one task, whose messages are all in memory
_DRIVER_ROWS = 1 << 16  # read and resulting ones, of a batch that the driver does itself
MAX_DRIVER_MATCHES = 1 << 18  # of all steps of a round, after which the driver gives such a batch up
_WEIGHT = 0.25  # of the last batch in an estimate
_STICKINESS = 1.25  # the choice changes only if the other one is better by this factor


class TaskChoice:
    """Learns from committed batches how many rows result from one, and from large ones what a row costs. The time that a small batch takes
    says nothing: most of it is no work of rows, and it is longer whenever the machine is busy."""

    def __init__(self) -> None:
        self._row_seconds = _ROW_SECONDS
        self._rows_per_row = 2.0
        """Read and resulting ones, per row that is read."""
        self._is_one_task = True
        self._driver_rows = _DRIVER_ROWS
        self.last_rows: int | None = None
        """Of the last batch, which is the best guess for the next where Spark does not say how many rows it has."""

    def is_one_task(self, rows: int, rounds: int, cores: int) -> bool:
        """The choice for a batch that reads so many rows."""
        if rows > MAX_ROWS:
            self._is_one_task = False
        elif cores == 1:
            self._is_one_task = True
        else:
            gain = rows * self._rows_per_row * self._row_seconds * (1 - 1 / cores)  # of running in parallel
            cost = _PARALLEL_SECONDS + _STAGE_SECONDS * rounds
            self._is_one_task = gain < cost * (_STICKINESS if self._is_one_task else 1 / _STICKINESS)
        return self._is_one_task

    def is_for_driver(self, rows: int) -> bool:
        """Whether the driver does a batch of one task itself."""
        return rows * self._rows_per_row <= self._driver_rows

    def had_too_many_matches(self, rows: int) -> None:
        """The driver has given up a batch that reads so many rows: no other of its size is tried."""
        self._driver_rows = min(self._driver_rows, int(rows * self._rows_per_row) // 2)

    def observe(self, rows: int, results: int, work: float) -> None:
        """A batch is committed. `work`: the seconds that its tasks took, added up."""
        self.last_rows = rows
        if rows:
            self._rows_per_row += _WEIGHT * ((rows + results) / rows - self._rows_per_row)
        if rows + results >= _MANY_ROWS:
            self._row_seconds += _WEIGHT * (work / (rows + results) - self._row_seconds)
