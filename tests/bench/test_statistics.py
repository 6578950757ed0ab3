"""The benchmark of the statistics: its arithmetic."""

from __future__ import annotations

import pytest

from clash_bench.statistics import Error, spearman


def test_rank_correlation() -> None:
    assert spearman([1, 2, 3, 10], [5, 6, 70, 71]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 1, 2, 2], [1, 2, 1, 2]) == pytest.approx(0)


def test_errors_are_factors() -> None:
    assert Error("x", 2, 100, 50).factor == Error("x", 2, 50, 100).factor == 2
    assert Error("x", 2, 0, 0.1).factor == 1
