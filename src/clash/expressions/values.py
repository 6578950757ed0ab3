"""What an expression's value is: an Arrow array with one entry per row, or an Arrow scalar that all rows share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import DataError

Value = Any  # pa.Array | pa.Scalar; pyarrow has no complete type stubs
Flags = np.ndarray[Any, np.dtype[np.bool_]]


def as_array(value: Value, rows: int) -> pa.Array:
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def on_array(function: Callable[[pa.Array], pa.Array], value: Value) -> Value:
    """The function of a scalar is its answer on an array of one."""
    return function(pa.repeat(value, 1))[0] if isinstance(value, pa.Scalar) else function(value)


def aligned(*values: Value) -> list[pa.Array]:
    """All as arrays of one length; at least one of them is an array."""
    rows = next(len(value) for value in values if not isinstance(value, pa.Scalar))
    return [as_array(value, rows) for value in values]


def whole(value: Value) -> Value:
    """The 64-bit numbers behind timestamps and intervals."""
    return value.cast(pa.int64()) if isinstance(value, pa.Scalar) else value.view(pa.int64())


def flags(value: pa.Array) -> Flags:
    """True entries; NULL is not true."""
    filled = value.fill_null(False) if value.null_count else value
    found: Flags = filled.to_numpy(zero_copy_only=False)
    return found


def with_nulls_of(data: np.ndarray[Any, Any], source: pa.Array, kind: pa.DataType) -> pa.Array:
    """The numbers as an array of the type, NULL where `source` is."""
    return pa.array(data, kind, mask=source.is_null().to_numpy(zero_copy_only=False) if source.null_count else None)


def numbers(value: pa.Array, null: int | float = 0) -> np.ndarray[Any, Any]:
    """Its numbers for numpy, with `null` where there is none."""
    found: np.ndarray[Any, Any] = (value.fill_null(null) if value.null_count else value).to_numpy(zero_copy_only=False)
    return found


def demand(good: Value, values: pa.Array, what: str, hint: str) -> None:
    """Raises, with the first value that is not good, unless all (or NULL) are."""
    if pc.all(good).as_py() is False:
        bad = values.filter(pc.invert(good).fill_null(False))
        raise DataError(what, f"the value {bad[0].as_py()!r}", hint)
