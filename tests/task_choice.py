"""For tests on Spark: batches run as several tasks and as one task in turn, as no batch of a test is large."""

from __future__ import annotations

from itertools import cycle

from clash.spark import batch_function
from clash.spark.task_choice import TaskChoice


class Alternating(TaskChoice):
    """The first batch of a run has several tasks."""

    def __init__(self) -> None:
        super().__init__()
        self._turns = cycle((False, True))

    def is_one_task(self, rows: int, rounds: int, cores: int) -> bool:
        return next(self._turns)


def alternate() -> None:
    """In this process, from now on."""
    batch_function.TaskChoice = Alternating  # type: ignore[misc]
