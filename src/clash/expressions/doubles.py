"""Floating-point numbers by their shortest decimal spelling, which is what Spark rounds: 1.005 is 1.005, not a little less.

Almost all values are rounded in double precision, where the error is known to be too small to matter; the few that are too close to
call, or too long, are rounded digit by digit, each distinct one once.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.expressions import decimals
from clash.expressions.values import numbers, with_nulls_of

Doubles = np.ndarray[Any, np.dtype[np.float64]]
_EXACT_POWER = 22  # 10**22 is the largest power of ten that is exact as a double
_SMALLEST = 324  # no double has a digit behind this place
_SAFE = 2.0**50
_SLACK = 2.0**-51
_LONGEST = 2.0**63


def rounded(values: pa.Array, places: int) -> pa.Array:
    """`ROUND` of doubles; NaN and infinities stay."""
    data = numbers(values, 0.0)
    if places > _SMALLEST:
        return values
    finite = np.isfinite(data)
    clean = np.where(finite, data, 0.0)
    steps, doubtful = _steps(clean, places)
    power = 10.0 ** abs(places) if abs(places) <= _EXACT_POWER else 1.0
    found = steps / power if places >= 0 else steps * power
    if places >= 0:
        whole = clean == np.trunc(clean)
        found, doubtful = np.where(whole, clean, found), doubtful & ~whole
    _digit_by_digit(clean, doubtful, found, lambda step: float(step.scaleb(-places)), places)
    return with_nulls_of(np.where(finite, found + 0.0, data), values, pa.float64())


def to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    """The cast to a decimal; NaN and infinities become NULL, as in Spark."""
    data = numbers(values, 0.0)
    finite = np.isfinite(data)
    clean = np.where(finite, data, 0.0)
    steps, doubtful = _steps(clean, target.scale)
    found: Any = np.where(doubtful, 0.0, steps).astype(np.int64)
    if doubtful.any():
        found = found.astype(object)
        _digit_by_digit(clean, doubtful, found, int, target.scale)
    valid = pc.and_(values.is_valid(), pa.array(finite)) if values.null_count or not finite.all() else None
    return decimals.scaled(found, valid, target)


def _steps(data: Doubles, places: int) -> tuple[Doubles, np.ndarray[Any, np.dtype[np.bool_]]]:
    """How many 10**-places, half up, and where that is not sure."""
    if abs(places) > _EXACT_POWER:
        return np.zeros_like(data), np.ones(len(data), dtype=np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = data * 10.0**places if places >= 0 else data / 10.0**-places
        below = np.trunc(scaled)
        rest, size = np.abs(scaled - below), np.abs(scaled)
        doubtful = ~(size < _SAFE) | (np.abs(rest - 0.5) <= size * _SLACK)
        return np.where(doubtful, 0.0, below + np.where(rest >= 0.5, np.sign(data), 0.0)), doubtful


def _digit_by_digit(data: Doubles, doubtful: Any, found: Any, shape: Callable[[Decimal], Any], places: int) -> None:
    if not doubtful.any():
        return
    distinct, where = np.unique(data[doubtful], return_inverse=True)
    with localcontext(prec=1000):
        exact = [Decimal(repr(value)).scaleb(places).quantize(Decimal(1), ROUND_HALF_UP) for value in distinct.tolist()]
        answers = np.array([shape(step) for step in exact], dtype=found.dtype)
    found[doubtful] = answers[where]


def clipped(values: pa.Array) -> pa.Array:
    """To bigint as Java casts: NaN is 0, what is too large is the largest."""
    data = numbers(values, 0.0)
    with np.errstate(invalid="ignore"):
        whole = np.where(np.abs(data) < _LONGEST, data, 0.0).astype(np.int64)
    whole[data >= _LONGEST] = np.iinfo(np.int64).max
    whole[data <= -_LONGEST] = np.iinfo(np.int64).min
    return with_nulls_of(whole, values, pa.int64())
