"""Random histories with reference tables: any refresh, plan, failure, restart or change gives what DuckDB gives of the versions in force.

Longer hunts: `python -m tests.oracle.hunt FIRST COUNT --tables`, also with `--changes`.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .generate import random_case
from .histories import random_history
from .hunt import report
from .shrink import failure
from .tables import with_tables


@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_any_history(rng: Random) -> None:
    case = with_tables(rng, random_case(rng, most_rows=6, most_queries=2))
    assert failure(case) is None, case


@pytest.mark.parametrize("first", range(0, 30, 15))
def test_seeded_histories(first: int) -> None:
    for seed in range(first, first + 15):
        rng = Random(seed)
        case = with_tables(rng, random_case(rng))
        what = failure(case)
        assert what is None, "\n".join(report(seed, what, case))


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_seeded_changes(first: int) -> None:
    for seed in range(first, first + 10):
        rng = Random(seed)
        case = with_tables(rng, random_history(rng))
        what = failure(case)
        assert what is None, "\n".join(report(seed, what, case))


def test_histories_have_what_they_are_for() -> None:
    cases = [with_tables(rng, random_case(rng)) for rng in map(Random, range(60))]
    tables = [case for case in cases if any(stream.is_table for stream in case.streams)]
    assert len(tables) > 30
    refreshed = [case for case in tables if any(batch.tables for batch in case.batches[1:])]
    assert len(refreshed) > 20
    queries = [query for case in tables for query in case.parsed]
    assert any(len(query.tables) > 1 for query in queries)
    assert any(len(query.streams) > 1 and query.tables for query in queries)
    assert any(len({relation.stream for relation in query.tables}) < len(query.tables) for query in queries)
