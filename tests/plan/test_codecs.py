"""Plans and topologies are the same after JSON, and anything else is refused with a message."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clash
from clash.codec import Codec
from clash.errors import OptionError
from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.query import SubJoin
from clash.model.relation import Attribute, Relation
from clash.optimizer import Plan
from clash.plan.codecs import PHYSICAL_PLAN, SHARED, topology_from_json, topology_to_data, topology_to_json
from clash.plan.logical import LogicalPlan
from clash.plan.topology import ProbeRule
from clash.plan.visibility import VisibilityBounds
from clash.topology.complete import complete

from ..topology.plans import plans

NAMES = st.text(max_size=5)
RELATIONS = st.builds(Relation, NAMES, st.integers(0, 3))
LITERALS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
LEAVES: st.SearchStrategy[Expr] = st.builds(Col, RELATIONS, NAMES, NAMES) | st.builds(Lit, LITERALS, NAMES)
EXPRESSIONS = st.recursive(LEAVES, lambda inner: st.builds(Call, NAMES, st.lists(inner, max_size=3).map(tuple), NAMES), max_leaves=6)
JOINS = st.builds(
    SubJoin,
    st.frozensets(RELATIONS, max_size=4),
    st.frozensets(st.frozensets(st.builds(Attribute, RELATIONS, NAMES), max_size=3), max_size=3),
    st.frozensets(EXPRESSIONS, max_size=3),
    st.frozensets(EXPRESSIONS, max_size=3),
    st.frozensets(st.tuples(RELATIONS, st.none() | st.integers(0)), max_size=4),
)


JOIN: Codec[SubJoin] = Codec(SubJoin)
PLAN: Codec[LogicalPlan] = Codec(LogicalPlan, SHARED)


@given(JOINS)
def test_any_sub_join(join: SubJoin) -> None:
    text = JOIN.dumps(join)
    assert JOIN.loads(text) == join
    assert JOIN.dumps(JOIN.loads(text)) == text


@given(plans())
def test_any_plan(plan: Plan) -> None:
    topology = plan.topology
    text = topology_to_json(topology)
    again = topology_from_json(text)
    assert again == topology
    assert topology_to_json(again) == text


@given(plans())
def test_any_plan_as_the_checkpoint_records_it(plan: Plan) -> None:
    logical = LogicalPlan(**{field.name: getattr(plan, field.name) for field in fields(LogicalPlan)})
    text = PLAN.dumps(logical)
    assert PLAN.loads(text) == logical
    assert PLAN.dumps(PLAN.loads(text)) == text
    physical = complete(plan.topology)
    text = PHYSICAL_PLAN.dumps(physical)
    assert PHYSICAL_PLAN.loads(text) == physical
    assert PHYSICAL_PLAN.dumps(PHYSICAL_PLAN.loads(text)) == text


def test_visibility_bounds() -> None:
    codec: Codec[VisibilityBounds] = Codec(VisibilityBounds)
    bounds = VisibilityBounds({"m": 3}, frozenset("f"), frozenset("g"), {"q": 1}, {"q": 1}, {"s": {"a": 2}}, {"s": 0})
    assert codec.loads(codec.dumps(bounds)) == bounds


@given(JOINS, st.lists(EXPRESSIONS, max_size=3))
def test_any_rule(join: SubJoin, expressions: list[Expr]) -> None:
    topology = clash.optimize({"q": "R(a), S(a)"}).topology
    rules = tuple(
        replace(r, adds=join, residuals=tuple(expressions), filters=tuple(expressions)) if isinstance(r, ProbeRule) else r
        for r in topology.rules
    )
    odd = replace(topology, rules=rules)
    assert topology_from_json(json.dumps(topology_to_data(odd), indent=2)) == odd


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"format": "clash topology", "version": 3}', '{"format": "clash topology"}'])
def test_what_is_not_a_topology(text: str) -> None:
    with pytest.raises(OptionError, match="not a topology"):
        topology_from_json(text)


def test_another_version() -> None:
    data = json.loads(topology_to_json(clash.optimize({"q": "R(a), S(a)"}).topology)) | {"version": 1}
    with pytest.raises(OptionError, match="another version"):
        topology_from_json(json.dumps(data))
