"""What all formats of `explain` share: their names, and the costs of other plans that a caller may pass in for comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clash.plan.options import StrategyName

Format = Literal["text", "json", "dot"]


@dataclass(frozen=True)
class StrategyCost:
    """The plan that one strategy makes of the same queries, in numbers."""

    strategy: StrategyName
    cost: float
    bound: float
    """Proven: no plan under this cost model costs less."""
    optimal: bool
    stores: int
    """The number of stores."""


@dataclass(frozen=True)
class Alternative:
    """A plan for the same queries under one other option: what that part of the plan is worth."""

    name: str
    cost: float
    optimal: bool
