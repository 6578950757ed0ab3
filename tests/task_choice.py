"""For tests on Spark: batches run as several tasks and as one task in turn, as no batch of a test is large."""

from __future__ import annotations

from itertools import cycle

import pytest

from clash.spark.task_choice import TaskChoice


def alternate(patch: pytest.MonkeyPatch) -> None:
    turns = cycle((False, True))
    patch.setattr(TaskChoice, "is_one_task", lambda self, rows, rounds, cores: next(turns))
