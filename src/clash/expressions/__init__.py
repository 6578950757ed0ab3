"""Expressions over Arrow arrays, with the answers of Spark 4 in ANSI mode."""

from clash.expressions.evaluate import evaluate, holds
from clash.expressions.arrow_types import arrow_type

__all__ = ["arrow_type", "evaluate", "holds"]
