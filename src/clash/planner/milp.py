"""An integer program in the making, and HiGHS to solve it."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread, get_native_id

import highspy
import numpy as np
import numpy.typing as npt

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

    def row(
        self, columns: Sequence[int], factors: Sequence[float], low: float = -highspy.kHighsInf, high: float = highspy.kHighsInf
    ) -> None:
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

    def _program(self, relax: bool) -> highspy.HighsLp:
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.costs), len(self.low)
        lp.col_cost_ = np.array(self.costs) * self.scale
        lp.col_lower_ = np.array(self.least)
        lp.col_upper_ = np.array(self.most)
        starts, factors = np.array(self.starts, np.int32), np.array(self.factors)
        size = np.maximum.reduceat(np.abs(factors), starts[:-1]) if len(factors) else np.ones(0)
        size = np.where(size > 0.0, size, 1.0)  # rows are made of costs here and there, and tolerances are absolute
        lp.row_lower_, lp.row_upper_ = np.array(self.low) / size, np.array(self.high) / size
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = starts
        lp.a_matrix_.index_ = np.array(self.columns, np.int32)
        lp.a_matrix_.value_ = factors / np.repeat(size, np.diff(starts))
        if not relax:
            kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
            lp.integrality_ = [kinds[whole] for whole in self.whole]
        return lp

    def solve(
        self,
        seconds: float,
        start: Sequence[float] | None = None,
        gap: float = 0.0,
        options: dict[str, float] | None = None,
        gentle: bool = False,
    ) -> Answer:
        """One thread and a fixed seed: the same program gives the same answer, unless the clock cuts it off. `gentle`: it works
        when nobody else wants the processor."""
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        settings: dict[str, float] = {"output_flag": False, "time_limit": max(0.01, seconds), "threads": 1, "random_seed": 0,
                    "mip_rel_gap": max(gap, TOLERANCE / 2), "mip_abs_gap": 1e-9,
            "mip_allow_restart": False,  # a restart throws away the root's work; measured: 20.7 s with, 6.4 s without
            "mip_heuristic_run_feasibility_jump": False,  # a start is there already
            **(options or {})}  # fmt: skip
        for name, value in settings.items():
            solver.setOptionValue(name, value)
        solver.passModel(self._program(relax=False))
        if start is not None:
            held = highspy.HighsSolution()
            held.col_value = [float(value) for value in start]
            held.value_valid = True
            solver.setSolution(held)
        if gentle:
            _last_in_line(solver)
        else:
            solver.run()
        info, status = solver.getInfo(), solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            raise AssertionError("every query set has a plan, so its program has a solution")
        values = np.array(solver.getSolution().col_value)
        found = len(values) > 0 and info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        return Answer(values if found else None, info.objective_function_value / self.scale, info.mip_dual_bound / self.scale)

    def relaxed(self, seconds: float) -> float:
        """The bound of the linear relaxation; −inf where it was cut off."""
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("time_limit", max(0.01, seconds))
        solver.passModel(self._program(relax=True))
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return -float("inf")
        return float(solver.getInfo().objective_function_value) / self.scale


def _last_in_line(solver: highspy.Highs) -> None:
    """Runs it in a thread of the lowest priority. Not our own thread: a priority that was given up does not come back, and whoever holds
    the interpreter's lock must not be last in line; HiGHS works without it."""

    failed: list[BaseException] = []

    def run() -> None:
        if sys.platform == "linux":  # where a thread has a priority of its own
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, get_native_id(), 19)
        try:
            solver.run()
        except BaseException as error:
            failed.append(error)

    thread = Thread(target=run, name="clash-solver", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
