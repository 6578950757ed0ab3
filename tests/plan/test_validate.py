"""Every plan is valid, and each way to break one is noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

import clash
from clash.model.layout import Layout
from clash.optimizer import Plan, validate
from clash.plan.errors import PlanError
from clash.plan.topology import Position, ProbeRule, Topology

from ..topology.plans import plans


@given(plans())
def test_every_plan_is_valid(plan: Plan) -> None:
    validate(plan)


@pytest.fixture(scope="module")
def plan() -> Plan:
    statistics = clash.Statistics(rates=dict.fromkeys("RSTU", 100), sizes={("R", "S"): 150, ("S", "T"): 150, ("T", "U"): 100})
    texts = {"q1": "R(a), S(a,b), T(b)", "q2": "S(b), T(b,c), U(c)"}
    found = clash.optimize(texts, statistics, workers=5, cost="probe", layouts="many")
    validate(found)
    assert any(store.key.join is not None for store in found.stores)
    return found


def says(plan: Plan | Topology, *words: str) -> None:
    with pytest.raises(PlanError) as error:
        validate(plan)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_an_order_too_few_or_too_many(plan: Plan) -> None:
    says(replace(plan, probe_orders=plan.probe_orders[1:]), "0 orders from")
    says(replace(plan, probe_orders=(*plan.probe_orders, plan.probe_orders[0])), "2 orders from")


def test_an_order_that_stops_early(plan: Plan) -> None:
    long = next(o for o in plan.probe_orders if len(o.steps) > 1 and o.queries)
    short = replace(long, steps=long.steps[:-1])
    says(replace(plan, probe_orders=tuple(short if o is long else o for o in plan.probe_orders)), "does not reach")


def test_a_cross_product(plan: Plan) -> None:
    long = next(o for o in plan.probe_orders if len(o.steps) > 1 and str(o.origin) == "S" and "q1" in o.queries)
    crossed = replace(long, steps=(long.steps[0], *long.steps[1:]), origin=long.origin)
    turned = replace(crossed, steps=crossed.steps[::-1])
    validate(replace(plan, probe_orders=tuple(turned if o is long else o for o in plan.probe_orders)))  # S probes either first
    r_s = next(o for o in plan.probe_orders if str(o.origin) == "R")
    t_first = replace(r_s, steps=tuple(s for o in plan.probe_orders for s in o.steps if str(s.store) == "T")[:1] + long.steps[:1])
    says(replace(plan, probe_orders=tuple(t_first if o is r_s else o for o in plan.probe_orders)), "cross product")


def test_a_mir_that_is_not_fed(plan: Plan) -> None:
    fed = next(o for o in plan.probe_orders if o.feeds is not None)
    says(replace(plan, probe_orders=tuple(o for o in plan.probe_orders if o is not fed)), "has 0 orders from")


def test_a_layout_that_the_store_lacks(plan: Plan) -> None:
    stores = tuple(replace(s, layouts=(Layout("one"),)) if s.key.stream == "S" else s for s in plan.stores)
    says(replace(plan, stores=stores), "a layout that the store does not have")


def test_places_that_are_not_so(plan: Plan) -> None:
    order = next(o for o in plan.probe_orders if o.steps)
    wrong = replace(order, steps=(replace(order.steps[0], places=3), *order.steps[1:]))
    says(replace(plan, probe_orders=tuple(wrong if o is order else o for o in plan.probe_orders)), "3 places")


def changed(topology: Topology, at: int, **fields: object) -> Topology:
    return replace(topology, edges=tuple(replace(e, **fields) if i == at else e for i, e in enumerate(topology.edges)))  # type: ignore[arg-type]


def test_time_going_back(plan: Plan) -> None:
    late = next(i for i, e in enumerate(plan.topology.edges) if e.position.round == 2 and e.source.kind == "edge")
    says(changed(plan.topology, late, position=Position(1, 0)), "within round 1")
    says(changed(plan.topology, late, position=Position(0, 0), stays=True), "goes back in time")


def test_a_column_that_does_not_travel(plan: Plan) -> None:
    probe = next(i for i, e in enumerate(plan.topology.edges) if e.carries is not None)
    says(changed(plan.topology, probe, columns=()), "")


def test_a_probe_before_its_store_is_filled(plan: Plan) -> None:
    topology = plan.topology
    stores = tuple(replace(s, fill=Position(9, 0)) if s.join is not None else s for s in topology.stores)
    says(replace(topology, stores=stores), "the store is filled at 9.0")


def test_a_result_too_many(plan: Plan) -> None:
    topology = plan.topology
    doubled = tuple(replace(r, emits=(*r.emits, *r.emits)) if isinstance(r, ProbeRule) else r for r in topology.rules)
    says(replace(topology, rules=doubled), "is answered 2 times")
