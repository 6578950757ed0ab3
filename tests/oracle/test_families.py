"""Queries that take their results from weaker joins have what DuckDB gives them, under any plan, failure, change or restart.

Longer hunts: `python -m tests.oracle.hunt FIRST COUNT --families`, also with `--changes`.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from clash.topology import complete

from .families import family_history
from .hunt import report
from .shrink import failure


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_seeded_families(first: int) -> None:
    for seed in range(first, first + 10):
        check(seed, changes=False)


@pytest.mark.parametrize("first", range(0, 12, 3))
def test_families_that_change(first: int) -> None:
    for seed in range(first, first + 3):
        check(seed, changes=True)


@pytest.mark.parametrize("field", ["conditions", "windows"])
def test_a_check_that_is_left_out_is_noticed(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = complete._refinement

    def broken(*arguments: Any) -> Any:
        found = find(*arguments)
        return None if found is None else replace(found, **{field: ()})

    monkeypatch.setattr(complete, "_refinement", broken)
    assert any(failure(family_history(Random(seed), changes=False)) for seed in (14, 22, 30))


def check(seed: int, changes: bool) -> None:
    case = family_history(Random(seed), changes)
    what = failure(case)
    assert what is None, "\n".join(report(seed, what, case))
