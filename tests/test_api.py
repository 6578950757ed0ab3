"""The public names, and which modules importing them loads."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

import clash


def test_names() -> None:
    errors = ["CheckpointError", "ClashError", "DataError", "OptionError", "QueryError", "SinkError", "SourceError", "StateError"]
    functions = ["configure", "optimize", "serve"]
    assert sorted(clash.__all__) == sorted([*errors, *functions, "Engine", "Plan", "Statistics", "Stream", "sinks", "sources"])
    for name in clash.__all__:
        assert getattr(clash, name) is not None
    assert issubclass(clash.QueryError, clash.ClashError)
    assert issubclass(clash.OptionError, clash.ClashError)
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        clash.optimise  # noqa: B018


def test_version() -> None:
    assert clash.__version__ == version("clash-on-spark")


def test_the_call_in_the_design() -> None:
    stats = clash.Statistics(
        rates={"R": 100, "S": 100},
        selectivities={"R.a = S.a": 0.01},
        default_rate=1000,
        default_selectivity=0.001,
        sizes={("S", "T"): 150},
    )
    plan = clash.optimize(
        {"q1": "R(a), S(a,b), T(b)", "q2": "S(b), T(b,c), U(c)"},
        stats,
        workers=5,
        strategy="global",
        formulation="compact",
        cost="probe",
        layouts="one",
        mirs=True,
        time_limit=10.0,
    )
    assert isinstance(plan, clash.Plan)
    assert plan.cost > 0
    assert plan.bound == plan.cost
    assert plan.optimal
    assert plan.gap == 0
    assert 0 <= plan.seconds < 10
    assert {name for order in plan.probe_orders for name in order.queries} == {"q1", "q2"}
    assert {store.key.stream for store in plan.stores} >= {"R", "S", "T", "U"}
    assert plan.explain() == plan.explain(format="text")
    text = plan.explain().replace("⇉", "»")  # a step that is sent to all workers has a different arrow
    assert all(str(order) in text for order in plan.probe_orders)
    assert json.loads(plan.explain(format="json"))
    assert plan.explain(format="dot").startswith("digraph")
    assert "<svg" in plan._repr_html_()


def test_compare_and_what_if() -> None:
    plan = clash.optimize({"q1": "R(a), S(a,b), T(b)"}, workers=5, cost="probe", layouts="many")
    rows = {row.strategy: row for row in plan.compare()}
    assert list(rows) == ["independent", "shared", "global"]
    assert rows["global"].cost == plan.cost
    assert rows["global"].cost <= rows["shared"].cost <= rows["independent"].cost
    answer = plan.what_if("S(b), T(b)")
    assert 0 <= answer.marginal <= answer.alone
    assert answer.plan.cost == pytest.approx(plan.cost + answer.marginal)
    assert len(plan.queries) == 1  # the plan itself is unchanged


def test_defaults() -> None:
    plan = clash.optimize({"q1": "SELECT R.a FROM R JOIN S ON R.a = S.a"})
    request = plan.request
    options = (request.workers, request.strategy, request.formulation, request.cost, request.layouts, request.mirs, request.time_limit)
    assert options == (4, "global", "compact", "full", "one", True, 10.0)
    assert request.gap == 0.0


def test_error_text() -> None:
    error = clash.ClashError("what is wrong", "the piece", "what to write")
    assert str(error) == "what is wrong\n  detail: the piece\n  hint: what to write"
    assert str(clash.ClashError("alone")) == "alone"


def loaded_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after the code."""
    script = f"{code}\nimport sys, json; print(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_importing_is_light() -> None:
    assert not loaded_after("import clash") & {"pyspark", "highspy", "numpy", "sqlglot", "pandas", "pyarrow"}


def test_the_planner_never_needs_spark() -> None:
    code = """
import clash, pkgutil, importlib
import clash.model, clash.planner, clash.sql, clash.topology, clash.explain
for package in (clash.model, clash.planner, clash.sql, clash.topology, clash.explain):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
plan = clash.optimize({"q": "R(a), S(a,b), T(b)"})
plan.explain(); plan.explain("json"); plan.explain("dot"); plan.topology
"""
    loaded = loaded_after(code)
    assert not loaded & {"pyspark", "py4j", "pandas", "pyarrow", "numba", "duckdb"}
    assert "highspy" in loaded
