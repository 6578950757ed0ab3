"""JSON numbers as floats and doubles, rounded once from their text, as Java does."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from clash.records.json_tokens import Number

_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "+INF": math.inf, "-Infinity": -math.inf, "-INF": -math.inf}


def as_double(token: Any) -> float:
    """The number, or one of the strings that stand for special values; raises ValueError for another token."""
    kind = type(token)
    if kind is float:
        return token  # type: ignore[no-any-return]
    if kind is Number:
        return float(token)
    if kind is int:
        try:
            return float(token)
        except OverflowError:
            return math.inf if token > 0 else -math.inf
    if kind is str and token in _SPECIAL:
        return _SPECIAL[token]
    raise ValueError


def in_the_middle(doubles: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether a double lies exactly between two neighbouring floats: the text that it was read from may have been nearer to one of them."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        nearest = doubles.astype(np.float32)
        towards = np.where(doubles > nearest, np.inf, -np.inf).astype(np.float32)
        other = np.nextafter(nearest, towards).astype(np.float64)
        return np.asarray((doubles != nearest) & (np.abs(doubles - nearest) == np.abs(other - doubles)))


def as_float(token: Any) -> float:
    """The number as the nearest float. By way of a double it would be rounded twice, which matters in the middle between two floats.

    Raises ValueError for another token, and for such a middle if the text of the number is not known.
    """
    double = as_double(token)
    with np.errstate(over="ignore", under="ignore"):
        nearest = float(np.float32(double))
    if not in_the_middle(np.array([double]))[0]:
        return nearest
    if type(token) is float:
        raise ValueError("the text of the number is not known")
    exact, middle = Fraction(token), Fraction(double)
    if exact == middle or (exact < middle) == (nearest < double):
        return nearest
    return float(np.nextafter(np.float32(nearest), np.float32(math.inf if nearest < double else -math.inf)))
