"""When a batch is run as one task."""

from __future__ import annotations

import pytest

from clash.spark.task_choice import TaskChoice


def test_small_batches_are_one_task_and_large_ones_are_not() -> None:
    choice = TaskChoice()
    assert choice.is_one_task(1_000, 1, 2)
    assert not choice.is_one_task(1_000_000, 1, 2)
    assert not choice.is_one_task(1_000_000, 1, 1)  # its messages would not fit into memory
    assert choice.is_one_task(30_000, 1, 1)


def test_it_learns_what_rows_cost_and_how_many_result() -> None:
    costly_rows, many_results = TaskChoice(), TaskChoice()
    assert costly_rows.is_one_task(5_000, 1, 2)
    for _ in range(20):
        costly_rows.observe(50_000, 0, 5.0)
        many_results.observe(1_000, 99_000, 0.4)
    assert not costly_rows.is_one_task(5_000, 1, 2)
    assert costly_rows.is_one_task(10, 1, 2)
    assert not many_results.is_one_task(1_000, 1, 2)
    assert many_results.is_one_task(1_000, 20, 2)  # so many stages would cost more


def test_slow_small_batches_stay_one_task() -> None:
    """As on a busy machine: each of several tasks would be as slow."""
    choice = TaskChoice()
    for _ in range(20):
        choice.observe(1_000, 1_500, 0.4)
    assert choice.is_one_task(1_000, 1, 2)


@pytest.mark.parametrize("before", [False, True])
def test_the_choice_does_not_flip_at_the_limit(before: bool) -> None:
    choice = TaskChoice()
    for _ in range(60):
        choice.observe(30_000, 0, 2 * 0.027)  # one stage more costs what two cores gain
    assert choice.is_one_task(0 if before else 60_000, 1, 2) == before
    assert choice.is_one_task(30_000, 1, 2) == before


def test_the_driver_does_small_batches_itself() -> None:
    choice = TaskChoice()
    assert choice.is_for_driver(1_000)
    assert not choice.is_for_driver(40_000)
    choice.had_too_many_matches(1_000)
    assert not choice.is_for_driver(1_000)
    assert choice.is_for_driver(10)
