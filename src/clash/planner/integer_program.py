"""An integer program in the making."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clash.planner.solver import Aside, Program, solve

TOLERANCE = 1e-6  # of a cost: below that two plans cost the same
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """`values` is None where no solution was found in time; `bound` is proven: no solution is cheaper."""

    values: Values | None
    cost: float
    bound: float


class Milp:
    """min c·x with rows lo ≤ a·x ≤ hi over variables in [least, most]."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.least: list[float] = []
        self.most: list[float] = []
        self.whole: list[bool] = []
        self.starts: list[int] = [0]
        self.columns: list[int] = []
        self.factors: list[float] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def var(self, cost: float = 0.0, whole: bool = True, most: float = 1.0) -> int:
        self.costs.append(cost)
        self.least.append(0.0)
        self.most.append(most)
        self.whole.append(whole)
        return len(self.costs) - 1

    def row(self, columns: Sequence[int], factors: Sequence[float], low: float = -math.inf, high: float = math.inf) -> None:
        self.columns.extend(columns)
        self.factors.extend(factors)
        self.starts.append(len(self.columns))
        self.low.append(low)
        self.high.append(high)

    def at_most(self, left: Sequence[int], right: Sequence[int]) -> None:
        """Σ left ≤ Σ right."""
        self.row([*left, *right], [1.0] * len(left) + [-1.0] * len(right), high=0.0)

    def at_least(self, columns: Sequence[int], low: float) -> None:
        self.row(columns, [1.0] * len(columns), low=low)

    def exactly(self, columns: Sequence[int], value: float) -> None:
        self.row(columns, [1.0] * len(columns), value, value)

    @property
    def scale(self) -> float:
        """The solver's tolerances are absolute: the largest cost becomes 10⁵, whatever the rates are."""
        largest = max(self.costs, default=0.0)
        return 1e5 / largest if 0.0 < largest < math.inf else 1.0

    def _program(self, relax: bool, start: Sequence[float] = ()) -> Program:
        starts, factors = np.array(self.starts, np.int32), np.array(self.factors, np.float64)
        size = np.maximum.reduceat(np.abs(factors), starts[:-1]) if len(factors) else np.ones(0)
        size = np.where(size > 0.0, size, 1.0)  # rows are made of costs here and there, and tolerances are absolute
        return Program(
            cost=np.array(self.costs, np.float64) * self.scale,
            least=np.array(self.least, np.float64),
            most=np.array(self.most, np.float64),
            whole=np.array(self.whole, np.bool_) & (not relax),
            low=np.array(self.low, np.float64) / size,
            high=np.array(self.high, np.float64) / size,
            starts=starts,
            columns=np.array(self.columns, np.int32),
            factors=factors / np.repeat(size, np.diff(starts)),
            start=np.array(start, np.float64),
        )

    def solve(
        self,
        seconds: float,
        start: Sequence[float] = (),
        gap: float = 0.0,
        options: Mapping[str, float] | None = None,
        aside: Aside | None = None,
    ) -> Answer:
        """One thread and a fixed seed: the same program gives the same answer, unless the clock cuts it off."""
        settings: dict[str, float] = {"output_flag": False, "time_limit": max(0.01, seconds), "threads": 1, "random_seed": 0,
                    "mip_rel_gap": max(gap, TOLERANCE / 2), "mip_abs_gap": 1e-9,
            "mip_allow_restart": False,  # a restart throws away the root's work; measured: 20.7 s with, 6.4 s without
            "mip_heuristic_run_feasibility_jump": False,  # a start is there already
            **(options or {})}  # fmt: skip
        found = (solve if aside is None else aside.solve)(self._program(relax=False, start=start), settings)
        if found.infeasible:
            raise AssertionError("every query set has a plan, so its program has a solution")
        return Answer(found.values if len(found.values) else None, found.cost / self.scale, found.bound / self.scale)

    def relaxed(self, seconds: float) -> float:
        """The bound of the linear relaxation; −inf where it was cut off."""
        found = solve(self._program(relax=True), {"output_flag": False, "time_limit": max(0.01, seconds)})
        return found.cost / self.scale if found.optimal else -math.inf
