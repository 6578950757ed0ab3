"""Each planning benchmark end to end, as small as possible. No time is asserted."""

from __future__ import annotations

import csv
from dataclasses import fields
from pathlib import Path

import pytest

from clash.errors import OptionError
from clash.plan.options import LayoutRule
from clash.planner.cost_model import CostModel
from clash.planner.published_program import MAX_ORDERS, PublishedProgram
from clash.planner.search_space import Options, build_space
from clash.sql import parse_queries
from clash_bench import gaps, ilp, job_like, our_planner, paper_ilp
from clash_bench.candidates import count_orders
from clash_bench.tables import mean, write
from clash_bench.workloads import WORKLOADS, Workload, draw

PNG = b"\x89PNG"


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_ilp(tmp_path: Path) -> None:
    ilp.run((3,), (2,), ("published", "compact"), ("one", "many"), 600.0, 2, tmp_path)
    rows = read(tmp_path / "ilp.csv")
    assert list(rows[0]) == [field.name for field in fields(ilp.IlpRow)]
    shapes = {(r["workload"], r["drawn"], r["size"], r["layouts"], r["formulation"]) for r in rows}
    assert len(shapes) == len(rows) == 2 * 2 * 2
    for published, compact in zip(rows[::2], rows[1::2], strict=True):
        assert published["status"] == compact["status"] == "ok"
        assert float(published["cost"]) == pytest.approx(float(compact["cost"]), rel=1e-6)
        assert published["sets"] == published["proven"] == published["near"] == "2"
        assert published["candidates"] == compact["candidates"]
        assert float(published["proven_best"]) <= float(published["proven_median"])
    assert (tmp_path / "ilp.png").read_bytes().startswith(PNG)


def test_ilp_adds_the_large_shape_to_the_largest_of_the_paper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []

    def measure(workload: Workload, sets: object, drawn: int, size: int, *rest: object) -> ilp.IlpRow:
        seen.append((workload, drawn, size))
        return real(workload, [{"q": "R(a), S(a)"}], drawn, size, *rest)  # type: ignore[arg-type]

    real = ilp.measure_sets
    monkeypatch.setattr(ilp, "measure_sets", measure)
    monkeypatch.setattr(ilp, "draw", lambda *_: {})
    monkeypatch.setattr(ilp, "draw_times", lambda *_: None)
    ilp.run((3,), (10, 100), ("compact",), ("many",), 5.0, 1, tmp_path)
    assert seen == [(workload, drawn, 3) for workload in WORKLOADS for drawn in (10, 100, 1000)]


def test_too_large_programs_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ilp, "MAX_ORDERS", 10)
    line = ilp.measure_sets("walk", [draw("walk", 100, 3, 3, 1)], 3, 3, "many", "published", 5.0)
    assert line.status == "too large"
    assert line.candidates > 10
    assert line.proven == line.near == 0
    assert line.variables is line.proven_median is line.gap is None


def test_a_time_limit_while_building_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OptionError("the published formulation is too large for these queries")

    monkeypatch.setattr(our_planner, "plan", refuse)
    sets = [draw("walk", 100, 3, 3, 1)]
    assert ilp.measure_sets("walk", sets, 3, 3, "many", "published", 5.0).status == "time limit"
    with pytest.raises(OptionError):
        ilp.measure_sets("walk", sets, 3, 3, "many", "compact", 5.0)


@pytest.mark.parametrize("layouts", ["one", "many"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_candidates_are_those_of_the_published_formulation(workload: Workload, layouts: LayoutRule) -> None:
    queries = draw(workload, 100, 4, 4, 1)
    parsed, streams = parse_queries(queries)
    graph = build_space(parsed, our_planner.STATISTICS, streams, Options(CostModel("probe", our_planner.WORKERS, layouts))).graph
    counted = count_orders(queries, our_planner.STATISTICS, our_planner.WORKERS, "probe", layouts)
    assert counted == PublishedProgram(graph, graph.lattice.targets).count < MAX_ORDERS


def test_a_requested_gap_is_no_proof() -> None:
    """The solver calls everything within the gap optimal."""
    near = our_planner.plan(draw("tree", 100, 12, 4, 1), cost="probe", layouts="one", gap=0.5, time_limit=20.0)
    assert near.gap == pytest.approx((near.cost - near.bound) / near.cost)


def test_paper_ilp(tmp_path: Path) -> None:
    settings = paper_ilp.Settings(counts=(2,), sizes=(3, 4), counts_by_size=(1,), max_sets_by_size=((4, 1),), own_sets=1, own_limit=5)
    paper_ilp.run(2, tmp_path, settings)
    rows = read(tmp_path / "paper-ilp.csv")
    assert list(rows[0]) == [field.name for field in fields(paper_ilp.Point)]
    figures = {"cost-10", "size-10", "cost-100", "size-100", "time-queries", "time-size"}
    for model, sets in (("paper", {"100"}), ("recipe", {"1", "2"}), ("own", {"1"})):
        of_model = [row for row in rows if row["model"] == model]
        assert {row["figure"] for row in of_model} == figures
        assert {row["repetitions"] for row in of_model} == sets
        assert all(float(row["mean"]) > 0 for row in of_model)
    assert (tmp_path / "paper-ilp.png").read_bytes().startswith(PNG)


def test_query_sets_of_the_paper_are_a_function_of_the_repetition() -> None:
    sets = paper_ilp.QuerySets(100, 10, 3)
    assert sets.queries(0) == sets.queries(0) != sets.queries(1)
    assert len(sets.texts(0)) == len(sets.queries(0))


def test_cells(tmp_path: Path) -> None:
    point = paper_ilp.Point("f", "own", "l", 10, 1, 3, 1234.5, float("nan"), 1, 0)
    write(tmp_path / "deep" / "x.csv", paper_ilp.Point, [point])
    assert (tmp_path / "deep" / "x.csv").read_text().splitlines()[1] == "f,own,l,10,1,3,1234.5,,1,0"


def test_mean() -> None:
    assert mean([2.0]) == (2.0, None)
    middle, error = mean([1.0, 3.0])
    assert (middle, error) == (2.0, 1.0)


def test_gaps(tmp_path: Path) -> None:
    for cost, name in (("probe", "uniform"), ("full", "varied")):
        gaps.run(cost, name, (gaps.Line(3, 3, "one", 600.0),), (), 2, tmp_path)  # type: ignore[arg-type]
        rows = read(tmp_path / f"gaps-{cost}-{name}.csv")
        assert [row["workload"] for row in rows] == list(WORKLOADS)
        for row in rows:
            assert row["proven"] == row["sets"] == "2"
            assert float(row["gap"]) == pytest.approx(0.0, abs=1e-6)
            assert float(row["bound"]) == pytest.approx(float(row["cost"]), rel=1e-5)
        assert (tmp_path / f"gaps-{cost}-{name}.png").read_bytes().startswith(PNG)


def test_the_set_like_the_join_order_benchmark() -> None:
    streams = {stream.name: stream for stream in job_like.streams()}
    texts = job_like.draw()
    assert texts == job_like.draw() != job_like.draw(2)
    queries, _ = parse_queries(texts, streams)
    sizes = sorted(len(query.join.relations) for query in queries)
    assert (len(streams), len(queries), sizes[0], sizes[-1]) == (21, 113, 4, 17)
    assert {relation.stream for query in queries for relation in query.join.relations} == set(streams)
