"""For tests on Spark: batches run as several tasks, as one task and in the driver in turn, as no batch of a test is large."""

from __future__ import annotations

import os
from itertools import cycle

from clash.spark import batch_function
from clash.spark.task_choice import TaskChoice


class Alternating(TaskChoice):
    """The first batch of a run has several tasks."""

    def __init__(self) -> None:
        super().__init__()
        self._turns = cycle(("several", "one", "driver"))
        self._turn = ""

    def is_one_task(self, rows: int, rounds: int, cores: int) -> bool:
        self._turn = next(self._turns)
        return self._turn != "several"

    def is_for_driver(self, rows: int) -> bool:
        return self._turn == "driver" and not os.environ.get("CLASH_FAILPOINT", "").startswith(("ingest-", "round-"))  # of a worker


def alternate() -> None:
    """In this process, from now on."""
    batch_function.TaskChoice = Alternating  # type: ignore[misc]
