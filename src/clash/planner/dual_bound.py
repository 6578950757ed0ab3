"""A proven lower bound on a linear program from any dual values, exact or not.

Weak duality: for every x within its bounds and the rows, and any dual values r,

    cost·x = r·(A x) + (cost − Aᵀ r)·x ≥ Σ_i min over the row's range of r_i·v + Σ_j min over the variable's range of d_j·x_j.

A row that is open on the side that r_i leans on would make this minus infinity, so its r_i counts as 0. All variables are bounded, so
nothing else is infinite. The better the duals, the better the bound; however bad they are, it holds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clash.planner.solver import LinearProgram

_EPSILON = float(np.finfo(np.float64).eps)
_ROUNDINGS = 8  # besides one per summand: of the program's own coefficients, of products, and of the last sums


def dual_bound(program: LinearProgram, duals: npt.NDArray[np.float64]) -> float:
    """No solution of the program costs less, whatever `duals` are; minus infinity where they are not numbers.

    What is subtracted at the end bounds the rounding errors: a sum of n terms, in any order, is off by at most n·ε times the sum of their
    absolute values.
    """
    if not np.isfinite(duals).all():
        return -np.inf
    r = np.where(np.isfinite(np.where(duals > 0.0, program.row_lower, program.row_upper)), duals, 0.0)
    side = np.where(r == 0.0, 0.0, np.where(r > 0.0, program.row_lower, program.row_upper))
    counts = np.diff(program.row_starts)
    products = program.coefficients * np.repeat(r, counts)
    variables = len(program.cost)
    reduced = program.cost - np.bincount(program.columns, weights=products, minlength=variables)
    bound = float((r * side).sum() + np.minimum(reduced * program.lower, reduced * program.upper).sum())
    reach = np.maximum(np.abs(program.lower), np.abs(program.upper))
    magnitude = np.abs(program.cost) + np.bincount(program.columns, weights=np.abs(products), minlength=variables)
    absolute = float(np.abs(r * side).sum() + (magnitude * reach).sum())
    summands = len(r) + variables + int(np.bincount(program.columns, minlength=1).max(initial=0))
    return bound - (summands + _ROUNDINGS) * _EPSILON * absolute
