"""A topology survives JSON without loss, and anything else is refused in words."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from clash.plan.json_codecs import join_from_json, join_to_json
from hypothesis import given
from hypothesis import strategies as st

import clash
from clash.errors import OptionError
from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.query import SubJoin
from clash.model.relation import Attribute, Relation
from clash.optimizer import Plan
from clash.plan.topology import ProbeRule

from .plans import plans

NAMES = st.text(max_size=5)
RELATIONS = st.builds(Relation, NAMES, st.integers(0, 3))
LITERALS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
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


@given(JOINS)
def test_any_sub_join(join: SubJoin) -> None:
    text = json.dumps(join_to_json(join))
    assert join_from_json(json.loads(text)) == join
    assert json.dumps(join_to_json(join_from_json(json.loads(text)))) == text


@given(plans())
def test_any_plan(plan: Plan) -> None:
    topology = plan.topology
    text = to_json(topology)
    again = from_json(text)
    assert again == topology
    assert to_json(again) == text


@given(JOINS, st.lists(EXPRESSIONS, max_size=3))
def test_any_rule(join: SubJoin, expressions: list[Expr]) -> None:
    topology = clash.optimize({"q": "R(a), S(a)"}).topology
    rules = tuple(
        replace(r, adds=join, residuals=tuple(expressions), filters=tuple(expressions)) if isinstance(r, ProbeRule) else r
        for r in topology.rules
    )
    odd = replace(topology, rules=rules)
    assert from_json(to_json(odd, indent=2)) == odd


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"format": "clash topology", "version": 2}', '{"format": "clash topology"}'])
def test_what_is_none(text: str) -> None:
    with pytest.raises(OptionError, match="not a topology"):
        from_json(text)


def test_another_version() -> None:
    data = json.loads(to_json(clash.optimize({"q": "R(a), S(a)"}).topology)) | {"version": 1}
    with pytest.raises(OptionError, match="another version"):
        from_json(json.dumps(data))
