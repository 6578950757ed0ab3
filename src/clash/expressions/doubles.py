"""Doubles rounded by their shortest decimal representation, as Spark does: 1.005 counts as 1.005, not as the slightly smaller double.

Almost all values are rounded in double precision, where the error is known to be too small to change the result. The few values that
are too close to a tie, or too large, are rounded exactly as decimal numbers, each distinct value once.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.expressions import decimals
from clash.expressions.values import to_numpy, with_nulls_of

Doubles = np.ndarray[Any, np.dtype[np.float64]]
_MAX_EXACT_POWER = 22  # 10**22 is the largest power of ten that is exact as a double
_LAST_PLACE = 324  # no double has a decimal digit after this place
_MAX_SAFE = 2.0**50  # from here on the error of a scaled value may reach 0.5
_RELATIVE_ERROR = 2.0**-51  # an upper bound for that of a scaled value
_INT64_END = 2.0**63


def round_half_up(values: pa.Array, places: int) -> pa.Array:
    """`ROUND` of doubles; NaN and infinities are unchanged."""
    data = to_numpy(values, 0.0)
    if places > _LAST_PLACE:
        return values
    finite = np.isfinite(data)
    numbers = np.where(finite, data, 0.0)
    steps, uncertain = _round_in_double(numbers, places)
    power = 10.0 ** abs(places) if abs(places) <= _MAX_EXACT_POWER else 1.0
    rounded = steps / power if places >= 0 else steps * power
    if places >= 0:
        integral = numbers == np.trunc(numbers)
        rounded, uncertain = np.where(integral, numbers, rounded), uncertain & ~integral
    _round_exactly(numbers, uncertain, rounded, lambda step: float(step.scaleb(-places)), places)
    return with_nulls_of(np.where(finite, rounded + 0.0, data), values, pa.float64())


def to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    """The cast to a decimal; NaN and infinities become NULL, as in Spark."""
    data = to_numpy(values, 0.0)
    finite = np.isfinite(data)
    numbers = np.where(finite, data, 0.0)
    steps, uncertain = _round_in_double(numbers, target.scale)
    integers: Any = np.where(uncertain, 0.0, steps).astype(np.int64)
    if uncertain.any():
        integers = integers.astype(object)
        _round_exactly(numbers, uncertain, integers, int, target.scale)
    valid = pc.and_(values.is_valid(), pa.array(finite)) if values.null_count or not finite.all() else None
    return decimals.from_unscaled(integers, valid, target)


def _round_in_double(data: Doubles, places: int) -> tuple[Doubles, np.ndarray[Any, np.dtype[np.bool_]]]:
    """The values as multiples of 10**-places, rounded half up, and for which values double precision is not enough to tell."""
    if abs(places) > _MAX_EXACT_POWER:
        return np.zeros_like(data), np.ones(len(data), dtype=np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = data * 10.0**places if places >= 0 else data / 10.0**-places
        truncated = np.trunc(scaled)
        fraction, magnitude = np.abs(scaled - truncated), np.abs(scaled)
        uncertain = ~(magnitude < _MAX_SAFE) | (np.abs(fraction - 0.5) <= magnitude * _RELATIVE_ERROR)
        return np.where(uncertain, 0.0, truncated + np.where(fraction >= 0.5, np.sign(data), 0.0)), uncertain


def _round_exactly(data: Doubles, selected: Any, results: Any, convert: Callable[[Decimal], Any], places: int) -> None:
    """Round the selected values as decimal numbers and write them, converted, into `results`: multiples of 10**-places, half up."""
    if not selected.any():
        return
    distinct, positions = np.unique(data[selected], return_inverse=True)
    with localcontext(prec=1000):
        exact = [Decimal(repr(value)).scaleb(places).quantize(Decimal(1), ROUND_HALF_UP) for value in distinct.tolist()]
        rounded = np.array([convert(step) for step in exact], dtype=results.dtype)
    results[selected] = rounded[positions]


def to_bigint(values: pa.Array) -> pa.Array:
    """Doubles as bigint, as Java casts them: NaN becomes 0, a number out of range the nearest bigint."""
    data = to_numpy(values, 0.0)
    with np.errstate(invalid="ignore"):
        integers = np.where(np.abs(data) < _INT64_END, data, 0.0).astype(np.int64)
    integers[data >= _INT64_END] = np.iinfo(np.int64).max
    integers[data <= -_INT64_END] = np.iinfo(np.int64).min
    return with_nulls_of(integers, values, pa.int64())
