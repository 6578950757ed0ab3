"""A mixed-integer program that is built variable by variable and row by row, and handed to the solver."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from clash.planner.dual_bound import dual_bound
from clash.planner.solver import LinearProgram, SolverProcess, solve

TOLERANCE = 1e-6  # relative; two plans whose costs differ by less cost the same
Values = npt.NDArray[np.float64]
FirstOrderMethod = Literal["hipdlp", "pdlp"]
"""The two of HiGHS; the first is faster where it converges."""


@dataclass(frozen=True)
class MilpResult:
    """What a solve found."""

    values: Values | None
    """One value per variable; None where no solution was found in time."""
    cost: float
    bound: float
    """Proven: no solution is cheaper."""


@dataclass(frozen=True)
class Relaxation:
    """A nearly optimal solution of the linear relaxation."""

    values: Values
    """One value per variable. They may violate rows by about the tolerance."""
    bound: float
    """Proven, although values and duals are not exact: no solution is cheaper."""


class Milp:
    """min costs·x subject to row_lower ≤ A·x ≤ row_upper and lower ≤ x ≤ upper. A is stored by rows, as in `LinearProgram`."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.integral: list[bool] = []
        self.row_starts: list[int] = [0]
        self.columns: list[int] = []
        self.coefficients: list[float] = []
        self.row_lower: list[float] = []
        self.row_upper: list[float] = []

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of variables and rows."""
        return len(self.costs), len(self.row_lower)

    def var(self, cost: float = 0.0, integral: bool = True, upper: float = 1.0) -> int:
        """Adds a variable in [0, upper] and returns its index."""
        self.costs.append(cost)
        self.lower.append(0.0)
        self.upper.append(upper)
        self.integral.append(integral)
        return len(self.costs) - 1

    def row(self, columns: Sequence[int], coefficients: Sequence[float], lower: float = -math.inf, upper: float = math.inf) -> None:
        """lower ≤ Σ coefficients · columns ≤ upper."""
        self.columns.extend(columns)
        self.coefficients.extend(coefficients)
        self.row_starts.append(len(self.columns))
        self.row_lower.append(lower)
        self.row_upper.append(upper)

    def at_most(self, left: Sequence[int], right: Sequence[int]) -> None:
        """Σ left ≤ Σ right."""
        self.row([*left, *right], [1.0] * len(left) + [-1.0] * len(right), upper=0.0)

    def at_least(self, columns: Sequence[int], value: float) -> None:
        """Σ columns ≥ value."""
        self.row(columns, [1.0] * len(columns), lower=value)

    def exactly(self, columns: Sequence[int], value: float) -> None:
        """Σ columns = value."""
        self.row(columns, [1.0] * len(columns), value, value)

    @property
    def scale(self) -> float:
        """The factor on all costs. The solver's tolerances are absolute, so the largest cost becomes 10⁵, whatever the rates are."""
        largest = max(self.costs, default=0.0)
        return 1e5 / largest if 0.0 < largest < math.inf else 1.0

    def _program(self, relax: bool, start: Sequence[float] = ()) -> LinearProgram:
        starts, coefficients = np.array(self.row_starts, np.int32), np.array(self.coefficients, np.float64)
        # Some rows have costs as coefficients, and the solver's tolerances are absolute: each row is divided by its largest coefficient.
        largest = np.maximum.reduceat(np.abs(coefficients), starts[:-1]) if len(coefficients) else np.ones(0)
        largest = np.where(largest > 0.0, largest, 1.0)
        return LinearProgram(
            cost=np.array(self.costs, np.float64) * self.scale,
            lower=np.array(self.lower, np.float64),
            upper=np.array(self.upper, np.float64),
            integral=np.array(self.integral, np.bool_) & (not relax),
            row_lower=np.array(self.row_lower, np.float64) / largest,
            row_upper=np.array(self.row_upper, np.float64) / largest,
            row_starts=starts,
            columns=np.array(self.columns, np.int32),
            coefficients=coefficients / np.repeat(largest, np.diff(starts)),
            start=np.array(start, np.float64),
        )

    def solve(
        self,
        seconds: float,
        start: Sequence[float] = (),
        gap: float = 0.0,
        options: Mapping[str, float] | None = None,
        solver: SolverProcess | None = None,
    ) -> MilpResult:
        """Solves within the time limit, in this process or in `solver`; `options` are further options of HiGHS.

        One thread and a fixed seed make it deterministic, unless the time limit ends the search.
        """
        settings: dict[str, float] = {
            "output_flag": False,
            "time_limit": max(0.01, seconds),
            "threads": 1,
            "random_seed": 0,
            "mip_rel_gap": max(gap, TOLERANCE / 2),
            "mip_abs_gap": 1e-9,
            "mip_allow_restart": False,  # a restart discards the work done at the root; measured: 20.7 s with restarts, 6.4 s without
            "mip_heuristic_run_feasibility_jump": False,  # it only looks for a first solution, and the start is one
            **(options or {}),
        }
        result = (solve if solver is None else solver.solve)(self._program(relax=False, start=start), settings)
        if result.infeasible:
            raise AssertionError("every query set has a plan, so its program has a solution")
        return MilpResult(result.values if len(result.values) else None, result.cost / self.scale, result.bound / self.scale)

    def relax(self, seconds: float, tolerance: float, method: FirstOrderMethod) -> Relaxation | None:
        """Solves the linear relaxation by a first-order method; None where the tolerance is not met within the time limit.

        On large programs it takes seconds where the simplex method takes minutes. Presolving costs more than it saves.
        """
        settings: dict[str, float | str] = {
            "output_flag": False,
            "time_limit": max(0.01, seconds),
            "threads": 1,
            "solver": method,
            "presolve": "off",
            "run_crossover": "off",
            "pdlp_optimality_tolerance": tolerance,
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
        }
        program = self._program(relax=True)
        result = solve(program, settings)
        if not len(result.values) or not len(result.duals):
            return None
        return Relaxation(result.values, dual_bound(program, result.duals) / self.scale)

    def relaxed(self, seconds: float) -> float:
        """Nearly the optimum of the linear relaxation, and proven like `relax`; −inf where the time limit ended the solve."""
        program = self._program(relax=True)
        result = solve(program, {"output_flag": False, "time_limit": max(0.01, seconds)})
        return dual_bound(program, result.duals) / self.scale if len(result.duals) else -math.inf
