"""Whether a change of plan pays: what it brings until the data is expected to change again, less what the change itself costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import NamedTuple

from clash.coordinator.adaptive.plan_pricing import price_plan
from clash.coordinator.adaptive.stability import Stability
from clash.coordinator.adaptive.transition_pricing import transition_cost
from clash.model.statistics import Statistics
from clash.plan.logical import LogicalPlan


class Payback(NamedTuple):
    """A change of plan under the statistics of the time, in units of the cost model."""

    old: float
    """The cost of the running plan per window."""
    new: float
    """That of the other one."""
    transition: float
    """What the change itself costs."""
    horizon: float
    """For how many windows the data is expected to stay as it is."""

    @property
    def net(self) -> float:
        """What the change brings within the horizon."""
        return (self.old - self.new) * self.horizon - self.transition

    @property
    def pays(self) -> bool:
        return self.net > 0

    @property
    def windows(self) -> float:
        """After how many windows the change has earned what it costs; infinite if it never does."""
        return self.transition / (self.old - self.new) if self.new < self.old else inf


@dataclass(frozen=True)
class Prices:
    """The prices of other plans beside the one that runs, under statistics in their normal form."""

    running: LogicalPlan
    statistics: Statistics
    stability: Stability
    assumed_horizon: float
    """As in `Stability.horizon`."""

    @cached_property
    def old(self) -> float | None:
        """The cost of the running plan; None if it cannot be priced."""
        return price_plan(self.running, self.statistics)

    def payback(self, plan: LogicalPlan) -> Payback | None:
        """Of a change to the plan; None if one of the plans cannot be priced."""
        new = price_plan(plan, self.statistics)
        if self.old is None or new is None:
            return None
        streams = {relation.stream for query in plan.queries for relation in query.streams}
        horizon = self.stability.horizon(sum(map(self.statistics.rate, streams)), self.assumed_horizon)
        return Payback(self.old, new, transition_cost(self.running, plan, self.statistics).total, horizon)
