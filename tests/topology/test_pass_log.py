"""`build_topology` logs the result of each pass at DEBUG level, and formats nothing otherwise."""

from __future__ import annotations

import logging

import pytest

from clash.plan.topology import Topology
from clash.plan.visibility import VisibilityBounds
from clash.topology import pass_log
from clash.topology.build import build_topology

from .plans import by_hand

_PLAN = by_hand(
    {"q1": "R(a), S(a,b), T(b)"}, ["q1: S T R", "q1: T S R", "q1: R ST", "ST: S T", "ST: T S"], {"R": "a", "S": "b", "T": "b", "ST": "S.a"}
)


def _build() -> Topology:
    """A topology with every kind of line: two branches for R, and a backfill of the intermediate store."""
    mir = next(store.id for store in build_topology(_PLAN).stores if store.join is not None)
    return build_topology(_PLAN, VisibilityBounds(introduced={mir: 100}, filling=frozenset([mir]), oldest={"s_R": 0, "s_S": 50, "s_T": 70}))


def test_every_pass_is_logged_by_name(caplog: pytest.LogCaptureFixture) -> None:
    expected = _build()
    with caplog.at_level(logging.DEBUG, logger="clash.topology"):
        assert _build() == expected
    passes = dict(record.getMessage().split(":\n  ", 1) for record in caplog.records[-7:])
    assert list(passes) == [
        "branch orders",
        "merge into trees",
        "place steps",
        "schedule",
        "describe stores",
        "columns that travel",
        "edges and rules",
    ]
    assert "R » (S ⋈ T)[S.a]@100… → q1\n  R » S[b]@0…100 » T[b]@0…100 → q1" in passes["branch orders"]
    assert "stored S » T[b] → (S ⋈ T)" in passes["branch orders"]
    assert "R » S[b]: all, results at hash of S.b" in passes["place steps"]
    assert "2.0 (S ⋈ T) is filled" in passes["schedule"]
    assert "s_S: S[b] (S.a, S.b), filled at 1.0, horizon unbounded" in passes["describe stores"]
    assert "R » S[b] » T[b]: R.a, S.b" in passes["columns that travel"]
    assert "e1: R → s_R[a] at 1.0, home R.a: stores" in passes["edges and rules"]


def test_nothing_is_formatted_at_other_levels(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(pass_log, "branch_lines", lambda branches: pytest.fail("formatted"))
    with caplog.at_level(logging.INFO, logger="clash.topology"):
        _build()
    assert not caplog.records
