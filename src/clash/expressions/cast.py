"""Casts, and the implicit widening before a comparison, which is a cast too: what does not fit raises, nothing turns to NULL."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import DataError
from clash.expressions import decimals, doubles, text_to_value, value_to_text
from clash.expressions.temporal import between
from clash.expressions.arrow_types import arrow_type
from clash.expressions.values import Value, demand, numbers, on_array, with_nulls_of
from clash.model.expressions import Call
from clash.model.types import family
from clash.model.coercion import TIMES, VOID

_MICROS = 1_000_000
_LONGEST = 2**63 - 1


def bring(value: Value, source: str, target: str, timezone: str) -> Value:
    """The value as type `target`."""
    if source == target:
        return value
    if source == VOID:
        return pa.scalar(None, arrow_type(target))
    if isinstance(value, pa.Scalar) and family(source) == "integer" and target in ("bigint", "double") and value.is_valid:
        return pa.scalar(value.as_py(), arrow_type(target))  # a literal in a comparison: worth not to build an array for
    return on_array(lambda values: _cast(values, source, target, timezone), value)


def _kind(name: str) -> str:
    if name.startswith("decimal"):
        return "decimal"
    return "time" if name == "date" or name in TIMES else family(name)


def _cast(values: pa.Array, source: str, target: str, timezone: str) -> pa.Array:
    pair = _kind(source), _kind(target)
    if pair == ("time", "time"):
        return between(values, source, target, timezone)
    if target == "string":
        return value_to_text.spelled(values, source, timezone)
    if source == "string":
        return text_to_value.parsed(values, target, timezone)
    cast = _CASTS.get(pair)
    if cast is None:
        raise DataError(f"{source} cannot be cast to {target}", "", "go through string, if that is meant")
    try:
        return cast(values, arrow_type(target))
    except pa.ArrowInvalid:
        raise _unfit(target) from None


def _unfit(target: str) -> DataError:
    return DataError(f"a value does not fit {target}", "", "CAST to a wider type")


def _checked(values: pa.Array, target: pa.DataType) -> pa.Array:
    return values.cast(target)


def _loose(values: pa.Array, target: pa.DataType) -> pa.Array:
    return values.cast(target, safe=False)


def _whole_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    # Arrow asks for room for any number of the source's type; only those that are there have to fit
    return values.cast(pa.decimal256(19 + target.scale, target.scale)).cast(target)


def _to_boolean(values: pa.Array, target: pa.DataType) -> pa.Array:
    return pc.not_equal(values, pa.scalar(Decimal(0) if pa.types.is_decimal(values.type) else 0, values.type))


def _double_to_whole(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cut off towards zero; 2**63 is the one number that is too large and still taken, as the largest: so does Spark."""
    cut = pc.trunc(values.cast(pa.float64()))
    top = 2.0 ** (target.bit_width - 1)
    fits = pc.and_(pc.greater_equal(cut, -top), pc.less_equal(cut, top) if target.bit_width == 64 else pc.less(cut, top))
    demand(fits, values, f"a value does not fit {target}", "CAST to a wider type")
    return doubles.clipped(cut).cast(target)


def _decimal_to_whole(values: pa.Array, target: pa.DataType) -> pa.Array:
    return pc.trunc(values).cast(target)


def _decimal_to_double(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Correctly rounded: through its spelling, unless both parts of the fraction are exact."""
    kind = values.type
    if target == pa.float64() and kind.precision <= 15:
        whole = decimals.relabelled(values, pa.decimal128(kind.precision, 0)).cast(pa.int64()).cast(pa.float64())
        return pc.divide(whole, 10.0**kind.scale) if kind.scale else whole
    return values.cast(pa.string()).cast(target)


def _boolean_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    return _whole_to_decimal(values.cast(pa.int64()), target)


def _double_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    return doubles.to_decimal(values.cast(pa.float64()), target)


def _whole_to_time(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Seconds; what is too large is the last moment there is."""
    most = _LONGEST // _MICROS
    seconds = values.cast(pa.int64())
    micros = pc.multiply(pc.min_element_wise(pc.max_element_wise(seconds, -most, skip_nulls=False), most, skip_nulls=False), _MICROS)
    micros = pc.if_else(pc.greater(seconds, most), _LONGEST, pc.if_else(pc.less(seconds, -most), -_LONGEST - 1, micros))
    return micros.view(target)


def _double_to_time(values: pa.Array, target: pa.DataType) -> pa.Array:
    return _double_to_whole(pc.multiply(values.cast(pa.float64()), float(_MICROS)), pa.int64()).view(target)


def _decimal_to_time(values: pa.Array, target: pa.DataType) -> pa.Array:
    scale = values.type.scale
    micros = pc.trunc(pc.multiply(values.cast(pa.decimal256(values.type.precision, scale)), pa.scalar(_MICROS).cast(pa.decimal256(19, 0))))
    return micros.cast(pa.int64()).view(target)


def _time_to_whole(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Whole seconds, counted down before 1970."""
    micros = values.view(pa.int64())
    return with_nulls_of(numbers(micros) // _MICROS, micros, pa.int64()).cast(target)


def _validity(values: pa.Array) -> pa.Array | None:
    return values.is_valid() if values.null_count else None


def _time_to_double(values: pa.Array, target: pa.DataType) -> pa.Array:
    return pc.divide(values.view(pa.int64()).cast(pa.float64(), safe=False), float(_MICROS)).cast(target)


def _time_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    return decimals.rescaled(decimals.scaled(numbers(values.view(pa.int64())), _validity(values), pa.decimal128(20, 6)), target)


def _call(call: Call, args: list[Value], timezone: str) -> Value:
    return bring(args[0], call.args[0].type, call.type, timezone)


KERNELS = {"cast": _call}
_CASTS: dict[tuple[str, str], Callable[[pa.Array, pa.DataType], pa.Array]] = {
    ("integer", "integer"): _checked,
    ("integer", "floating"): _loose,
    ("integer", "decimal"): _whole_to_decimal,
    ("integer", "boolean"): _to_boolean,
    ("integer", "time"): _whole_to_time,
    ("floating", "integer"): _double_to_whole,
    ("floating", "floating"): _loose,
    ("floating", "decimal"): _double_to_decimal,
    ("floating", "boolean"): _to_boolean,
    ("floating", "time"): _double_to_time,
    ("decimal", "integer"): _decimal_to_whole,
    ("decimal", "floating"): _decimal_to_double,
    ("decimal", "decimal"): decimals.rescaled,
    ("decimal", "boolean"): _to_boolean,
    ("decimal", "time"): _decimal_to_time,
    ("boolean", "integer"): _checked,
    ("boolean", "floating"): _checked,
    ("boolean", "decimal"): _boolean_to_decimal,
    ("time", "integer"): _time_to_whole,
    ("time", "floating"): _time_to_double,
    ("time", "decimal"): _time_to_decimal,
}
