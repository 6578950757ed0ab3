"""Casts, explicit or as the implicit widening before a comparison. A value that does not fit the target raises; it never becomes NULL."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import DataError
from clash.expressions import decimals, doubles, text_to_value, value_to_text
from clash.expressions.arrow_types import arrow_type
from clash.expressions.temporal import cast_temporal
from clash.expressions.values import Value, on_array, require, to_numpy, with_nulls_of
from clash.model.coercion import TIMES, VOID
from clash.model.expressions import Call
from clash.model.types import family

_MICROS = 1_000_000
_MAX_INT64 = 2**63 - 1


def cast_value(value: Value, source: str, target: str, timezone: str) -> Value:
    """The value of Spark type `source` as Spark type `target`."""
    if source == target:
        return value
    if source == VOID:
        return pa.scalar(None, arrow_type(target))
    if isinstance(value, pa.Scalar) and family(source) == "integer" and target in ("bigint", "double") and value.is_valid:
        return pa.scalar(value.as_py(), arrow_type(target))  # a literal in a comparison: the common case needs no array
    return on_array(lambda values: _cast(values, source, target, timezone), value)


def _kind(name: str) -> str:
    """The group of types that share a cast function, as the keys of `_CASTS` name it."""
    if name.startswith("decimal"):
        return "decimal"
    return "time" if name == "date" or name in TIMES else family(name)


def _cast(values: pa.Array, source: str, target: str, timezone: str) -> pa.Array:
    pair = _kind(source), _kind(target)
    if pair == ("time", "time"):
        return cast_temporal(values, source, target, timezone)
    if target == "string":
        return value_to_text.format_values(values, source, timezone)
    if source == "string":
        return text_to_value.parse_text(values, target, timezone)
    cast = _CASTS.get(pair)
    if cast is None:
        raise DataError(f"{source} cannot be cast to {target}", "", "go through string, if that is meant")
    try:
        return cast(values, arrow_type(target))
    except pa.ArrowInvalid:
        raise _does_not_fit(target) from None


def _does_not_fit(target: str) -> DataError:
    return DataError(f"a value does not fit {target}", "", "CAST to a wider type")


def _arrow_cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    return values.cast(target)


def _rounding_cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Rounds to the nearest value of the target instead of raising if that is not exact."""
    return values.cast(target, safe=False)


def _integer_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    # Arrow requires a decimal that is wide enough for every integer of the source's type; here only the actual values have to fit
    return values.cast(pa.decimal256(19 + target.scale, target.scale)).cast(target)


def _to_boolean(values: pa.Array, target: pa.DataType) -> pa.Array:
    return pc.not_equal(values, pa.scalar(Decimal(0) if pa.types.is_decimal(values.type) else 0, values.type))


def _double_to_integer(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Truncated towards zero. 2**63 is the only value out of range that does not raise: as in Spark it becomes the largest bigint."""
    truncated = pc.trunc(values.cast(pa.float64()))
    limit = 2.0 ** (target.bit_width - 1)
    below = pc.less_equal if target.bit_width == 64 else pc.less
    fits = pc.and_(pc.greater_equal(truncated, -limit), below(truncated, limit))
    require(fits, values, f"a value does not fit {target}", "CAST to a wider type")
    return doubles.to_bigint(truncated).cast(target)


def _decimal_to_integer(values: pa.Array, target: pa.DataType) -> pa.Array:
    return pc.trunc(values).cast(target)


def _decimal_to_double(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Correctly rounded: converted by way of text, unless numerator and denominator are exact as doubles."""
    kind = values.type
    if target == pa.float64() and kind.precision <= 15:
        numerators = decimals.with_scale_of(values, pa.decimal128(kind.precision, 0)).cast(pa.int64()).cast(pa.float64())
        return pc.divide(numerators, 10.0**kind.scale) if kind.scale else numerators
    return values.cast(pa.string()).cast(target)


def _boolean_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    return _integer_to_decimal(values.cast(pa.int64()), target)


def _double_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    return doubles.to_decimal(values.cast(pa.float64()), target)


def _integer_to_time(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Seconds since 1970; a number out of range becomes the first or last representable timestamp."""
    max_seconds = _MAX_INT64 // _MICROS
    seconds = values.cast(pa.int64())
    clamped = pc.min_element_wise(pc.max_element_wise(seconds, -max_seconds, skip_nulls=False), max_seconds, skip_nulls=False)
    micros = pc.if_else(pc.less(seconds, -max_seconds), -_MAX_INT64 - 1, pc.multiply(clamped, _MICROS))
    micros = pc.if_else(pc.greater(seconds, max_seconds), _MAX_INT64, micros)
    return micros.view(target)


def _double_to_time(values: pa.Array, target: pa.DataType) -> pa.Array:
    return _double_to_integer(pc.multiply(values.cast(pa.float64()), float(_MICROS)), pa.int64()).view(target)


def _decimal_to_time(values: pa.Array, target: pa.DataType) -> pa.Array:
    scale = values.type.scale
    micros = pc.trunc(pc.multiply(values.cast(pa.decimal256(values.type.precision, scale)), pa.scalar(_MICROS).cast(pa.decimal256(19, 0))))
    return micros.cast(pa.int64()).view(target)


def _time_to_integer(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Whole seconds since 1970, rounded down also before 1970."""
    micros = values.view(pa.int64())
    return with_nulls_of(to_numpy(micros) // _MICROS, micros, pa.int64()).cast(target)


def _validity(values: pa.Array) -> pa.Array | None:
    return values.is_valid() if values.null_count else None


def _time_to_double(values: pa.Array, target: pa.DataType) -> pa.Array:
    return pc.divide(values.view(pa.int64()).cast(pa.float64(), safe=False), float(_MICROS)).cast(target)


def _time_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    return decimals.rescale(decimals.from_unscaled(to_numpy(values.view(pa.int64())), _validity(values), pa.decimal128(20, 6)), target)


def _cast_call(call: Call, args: list[Value], timezone: str) -> Value:
    return cast_value(args[0], call.args[0].type, call.type, timezone)


KERNELS = {"cast": _cast_call}
_CASTS: dict[tuple[str, str], Callable[[pa.Array, pa.DataType], pa.Array]] = {
    ("integer", "integer"): _arrow_cast,
    ("integer", "floating"): _rounding_cast,
    ("integer", "decimal"): _integer_to_decimal,
    ("integer", "boolean"): _to_boolean,
    ("integer", "time"): _integer_to_time,
    ("floating", "integer"): _double_to_integer,
    ("floating", "floating"): _rounding_cast,
    ("floating", "decimal"): _double_to_decimal,
    ("floating", "boolean"): _to_boolean,
    ("floating", "time"): _double_to_time,
    ("decimal", "integer"): _decimal_to_integer,
    ("decimal", "floating"): _decimal_to_double,
    ("decimal", "decimal"): decimals.rescale,
    ("decimal", "boolean"): _to_boolean,
    ("decimal", "time"): _decimal_to_time,
    ("boolean", "integer"): _arrow_cast,
    ("boolean", "floating"): _arrow_cast,
    ("boolean", "decimal"): _boolean_to_decimal,
    ("time", "integer"): _time_to_integer,
    ("time", "floating"): _time_to_double,
    ("time", "decimal"): _time_to_decimal,
}
