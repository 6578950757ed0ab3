"""Whether a change of plan pays, and which of several brings most."""

from __future__ import annotations

import math

import clash
from clash.coordinator.adaptive.offers import Known, Offer
from clash.coordinator.adaptive.payback import Payback, Prices
from clash.coordinator.adaptive.stability import Stability

PLAN = clash.optimize({"q": "R(a), S(a)"}, time_limit=0)


def offer(reason: str, *numbers: float) -> Offer:
    return Offer(0, 0, PLAN, reason, Payback(*numbers))


def test_a_change_pays_if_it_earns_its_price_within_the_horizon() -> None:
    assert Payback(100, 60, transition=100, horizon=3).pays
    assert not Payback(100, 60, transition=100, horizon=2).pays
    assert Payback(100, 60, transition=100, horizon=3).windows == 2.5
    assert Payback(100, 120, transition=0, horizon=3).windows == math.inf


def test_the_plan_that_brings_most_is_offered() -> None:
    cheap, dear = offer("cheap to change to", 100, 70, 0, 2), offer("cheapest in the end", 100, 50, 60, 2)
    assert Known.best([dear, cheap], gain=0.1) == Known(cheap)
    longer = offer("cheapest in the end", 100, 50, 60, 20)
    assert Known.best([cheap, longer], gain=0.1) == Known(longer)


def test_a_plan_that_does_not_pay_yet_is_kept() -> None:
    unpaid, offered = offer("too dear", 100, 50, 200, 2), offer("small", 100, 85, 0, 2)
    assert Known.best([unpaid], gain=0.1) == Known(None, unpaid)
    assert Known.best([unpaid, offered], gain=0.1) == Known(offered, unpaid)
    assert Known.best([unpaid, offered], gain=0.6) == Known()


def test_the_running_plan_itself_brings_and_costs_nothing() -> None:
    payback = Prices(PLAN, PLAN.request.statistics, Stability(), 10.0).payback(PLAN)
    assert payback is not None
    assert payback.net == 0
    assert not payback.pays
