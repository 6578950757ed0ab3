"""The paper's model gives the paper's numbers, and small cases by hand."""

from __future__ import annotations

import pytest

from clash_bench import paper_values as paper
from clash_bench.paper_ilp import SIZE, QuerySets
from clash_bench.paper_model import PaperModel, measure, partial_result
from clash_bench.tables import mean
from clash_bench.workloads import Schema, paper_schema

CHAIN = Schema({"R": ("a", "x", "y"), "S": ("a", "b", "z"), "T": ("b", "v", "w")})


def test_sizes_of_partial_results() -> None:
    assert [partial_result(n) for n in (1, 2, 3)] == pytest.approx([1000.0, 1000.0, 1.0])


def test_a_chain_by_hand() -> None:
    """R»S»T and T»S»R save the broadcast of their second step by partitioning S and the last store alike; S»… cannot."""
    outcome = measure(CHAIN, [("R", "S", "T")], 10.0)
    # S has two layouts, R and T one: R»S[a|b]»T[b], T»S[a|b]»R[a], S»R[a]»T[b], S»T[b]»R[a]; one prefix of one and one of two steps each
    assert outcome.orders == 6
    assert outcome.variables == 6 + (2 + 2 + 2) + 6
    assert outcome.shared == outcome.individual == 6000 + 6000 + 10000
    assert outcome.proven


def test_shared_steps_are_paid_once() -> None:
    wider = Schema({**CHAIN.relations, "U": ("b", "p", "q")})
    outcome = measure(wider, [("R", "S", "T"), ("R", "S", "U")], 10.0)
    # R»S[b] and S»R[a] serve both queries: two broadcasts of 1,000 tuples to 5 workers less
    assert outcome.individual - outcome.shared == 10_000


def test_one_more_query_adds_layouts_to_the_others() -> None:
    """Why the paper's curves of sizes bend upwards."""
    wider = Schema({**CHAIN.relations, "U": ("v", "p", "q")})
    alone = len(PaperModel(wider, [("R", "S", "T")]).orders)
    beside = PaperModel(wider, [("R", "S", "T"), ("S", "T", "U")])
    assert len([order for order in beside.orders if len(order.prefixes) == 2]) > 2 * alone


@pytest.mark.parametrize(("relations", "drawn", "repetitions"), [(10, 10, 20), (10, 100, 5), (100, 10, 10), (100, 100, 5)])
def test_the_figures_of_the_paper(relations: int, drawn: int, repetitions: int) -> None:
    """A few sets only, so within 10 % of what is drawn from a hundred; `clash bench paper-ilp` shows the rest."""
    runs = [measure(paper_schema(relations), QuerySets(relations, drawn, SIZE).queries(i), 60.0) for i in range(repetitions)]
    assert all(run.proven for run in runs)
    for name, line in (("individual", paper.COSTS), ("shared", paper.COSTS), ("variables", paper.SIZES), ("orders", paper.SIZES)):
        ours, _ = mean([float(getattr(run, name)) for run in runs])
        assert ours == pytest.approx(line[relations, name][drawn], rel=0.1), name


def test_values_of_the_paper_are_complete() -> None:
    for lines in (paper.COSTS, paper.SIZES):
        assert {len(line) for line in lines.values()} == {10}
    assert paper.gurobi(100, 3) == pytest.approx(0.12571)
    assert paper.gurobi(30, 5) == pytest.approx(135.48408)
    assert paper.gurobi(100, 5) is None
