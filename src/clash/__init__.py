"""CLASH on Spark: many continuous multi-way joins over the same streams, answered by one shared, adaptive topology."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clash import sinks, sources
    from clash.errors import CheckpointError, ClashError, DataError, OptionError, QueryError, SinkError, SourceError, StateError
    from clash.model.statistics import Statistics
    from clash.model.stream import Stream
    from clash.optimizer import Plan, optimize
    from clash.server.serve import serve
    from clash.spark.configure import configure
    from clash.spark.engine import Engine

__version__ = "0.1.0"  # also of the distribution: pyproject.toml reads it here

# Loaded on first access, so that `clash --help` needs neither the solver nor Spark.
_WHERE = {
    "CheckpointError": "clash.errors",
    "ClashError": "clash.errors",
    "DataError": "clash.errors",
    "OptionError": "clash.errors",
    "QueryError": "clash.errors",
    "SinkError": "clash.errors",
    "SourceError": "clash.errors",
    "StateError": "clash.errors",
    "Engine": "clash.spark.engine",
    "Plan": "clash.optimizer",
    "Statistics": "clash.model.statistics",
    "Stream": "clash.model.stream",
    "configure": "clash.spark.configure",
    "optimize": "clash.optimizer",
    "serve": "clash.server.serve",
}

__all__ = [
    "CheckpointError",
    "ClashError",
    "DataError",
    "Engine",
    "OptionError",
    "Plan",
    "QueryError",
    "SinkError",
    "SourceError",
    "StateError",
    "Statistics",
    "Stream",
    "configure",
    "optimize",
    "serve",
    "sinks",
    "sources",
]


def __getattr__(name: str) -> Any:
    if name in ("sinks", "sources"):
        return import_module(f"clash.{name}")
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'clash' has no attribute {name!r}")
