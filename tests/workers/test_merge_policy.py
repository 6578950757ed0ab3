"""What is merged follows from what it costs to write rows, and to probe containers."""

from __future__ import annotations

from dataclasses import replace

import pytest

import clash
from clash.protocol.batch import BatchSpec, Tuning
from clash.workers.merge_policy import MergePolicy, merge_policy

from .batches import checkpoint, stream

JOIN = "SELECT R.v, S.v AS w FROM R JOIN S ON R.a = S.a"


@pytest.fixture(scope="module")
def spec() -> BatchSpec:
    plan = clash.optimize({"q": JOIN}, streams=[stream("R"), stream("S")], workers=2, time_limit=0.0)
    return checkpoint(plan).spec()


@pytest.mark.parametrize(
    ("rows", "probing", "expected"),
    [
        (1, 1_000, MergePolicy(314, 2)),  # of small batches, what containers cost besides counts
        (1_000, 1_000, MergePolicy(314, 4)),
        (500, 300_000, MergePolicy(8_857, 2)),  # many rows look for few: they are kept together
        (20_000, 300_000, MergePolicy(8_857, 3)),
        (150_000, 60_000, MergePolicy(2_000, 16)),  # few rows look for many
        (150_000, 0, MergePolicy(285, 16)),
    ],
)
def test_the_policy_weighs_rows_against_probes(spec: BatchSpec, rows: int, probing: int, expected: MergePolicy) -> None:
    assert merge_policy(replace(spec, probing={"s_S": probing}), "s_S", rows) == expected


def test_of_one_task_all_rows_probe(spec: BatchSpec) -> None:
    one = replace(spec, probing={"s_S": 150_000}, is_one_task=True)
    assert merge_policy(one, "s_S", 500) == merge_policy(replace(spec, probing={"s_S": 300_000}), "s_S", 500)


def test_without_figures_only_the_cheapest_is_merged(spec: BatchSpec) -> None:
    assert merge_policy(spec, "s_S", 150_000) == MergePolicy(285, 16)


def test_containers_may_cost_nothing(spec: BatchSpec) -> None:
    free = replace(spec, tuning=Tuning(container_cost=0), probing={"s_S": 0})
    assert merge_policy(free, "s_S", 10) == MergePolicy(0, 16)
