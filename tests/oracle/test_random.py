"""Random histories on the in-process transport: any plan, batching, failure or restart gives what DuckDB gives.

Longer hunts: `python -m tests.oracle.hunt FIRST COUNT`.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .generate import random_case
from .hunt import report
from .shrink import failure


@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_any_history(rng: Random) -> None:
    case = random_case(rng, most_rows=6, most_queries=2)
    assert failure(case) is None, case


@pytest.mark.parametrize("first", range(0, 60, 15))
def test_seeded_histories(first: int) -> None:
    for seed in range(first, first + 15):
        case = random_case(Random(seed))
        what = failure(case)
        assert what is None, "\n".join(report(seed, what, case))
