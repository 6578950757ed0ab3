"""The options of planning: their names, their ranges, and one place that refuses everything else."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from clash.errors import OptionError
from clash.model.statistics import Statistics

StrategyName = Literal["independent", "shared", "global"]
FormulationName = Literal["published", "compact"]
CostName = Literal["probe", "full"]
LayoutRule = Literal["one", "many"]
BoundSource = Literal["solver", "relaxation", "isolated queries", "floor"]
"""Where the bound of a plan comes from, the strongest first: the integer program; its linear relaxation, by duals; what queries cost alone;
what every plan pays, whether it was considered or not."""

BOUND_SOURCES: tuple[BoundSource, ...] = get_args(BoundSource)
STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)
MAX_WORKERS = 10_000

_NAMED = {
    "strategy": ("strategy", StrategyName),
    "formulation": ("formulation", FormulationName),
    "cost": ("cost model", CostName),
    "layouts": ("layouts", LayoutRule),
}


def check_options(**options: Any) -> None:
    """Raises an OptionError for the first of these options whose value is not allowed; options are named as `clash.optimize` names them."""
    for option, value in options.items():
        if option in _NAMED:
            name, allowed = _NAMED[option]
            if value not in get_args(allowed):
                raise OptionError(f"unknown {name}", repr(value), f"write one of {', '.join(get_args(allowed))}")
        elif option == "workers":
            check_workers(value)
        elif option == "statistics":
            if not isinstance(value, Statistics):
                hint = 'write clash.Statistics(rates={"R": 100})'
                raise OptionError("statistics are not a clash.Statistics", type(value).__name__, hint)
        elif option in ("time_limit", "gap"):
            most = math.inf if option == "time_limit" else 1.0
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
                hint = "write seconds, 0 or more" if option == "time_limit" else "write a share, 0 to 1"
                raise OptionError(f"{option} is out of range", repr(value), hint)
        elif not isinstance(value, bool):
            hint = "write mirs=False to keep no intermediate results" if option == "mirs" else f"write {option}=False to do without"
            raise OptionError(f"{option} is neither True nor False", repr(value), hint)


def check_workers(workers: object) -> None:
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= MAX_WORKERS:
        raise OptionError("the number of workers is out of range", repr(workers), f"write a whole number from 1 to {MAX_WORKERS:,}")
