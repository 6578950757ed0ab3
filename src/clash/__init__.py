"""CLASH on Spark: many continuous multi-way joins over the same streams, answered by one shared, adaptive topology."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clash.errors import ClashError, OptionError, QueryError
    from clash.model.statistics import Statistics
    from clash.model.stream import Stream
    from clash.planner.optimize import optimize
    from clash.planner.plan import Plan

# Loaded when first asked for, so that `clash --help` needs neither the solver nor Spark.
_WHERE = {
    "ClashError": "clash.errors",
    "OptionError": "clash.errors",
    "QueryError": "clash.errors",
    "Plan": "clash.planner.plan",
    "Statistics": "clash.model.statistics",
    "Stream": "clash.model.stream",
    "optimize": "clash.planner.optimize",
}

__all__ = ["ClashError", "OptionError", "Plan", "QueryError", "Statistics", "Stream", "optimize"]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'clash' has no attribute {name!r}")
