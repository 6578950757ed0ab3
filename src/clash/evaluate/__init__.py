"""Expressions over Arrow arrays, with the answers of Spark 4 in ANSI mode."""

from clash.evaluate.evaluate import evaluate, holds
from clash.evaluate.types import arrow_type

__all__ = ["arrow_type", "evaluate", "holds"]
