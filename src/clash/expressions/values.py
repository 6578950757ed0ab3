"""The value of an expression: an Arrow array with one entry per row, or an Arrow scalar that holds for all rows."""

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
    """The value as an array of `rows` entries; a scalar is repeated."""
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def on_array(function: Callable[[pa.Array], pa.Array], value: Value) -> Value:
    """Apply a function of arrays to an array or, by way of an array of one entry, to a scalar."""
    return function(pa.repeat(value, 1))[0] if isinstance(value, pa.Scalar) else function(value)


def as_arrays(*values: Value) -> list[pa.Array]:
    """All values as arrays of equal length; at least one of them must be an array."""
    rows = next(len(value) for value in values if not isinstance(value, pa.Scalar))
    return [as_array(value, rows) for value in values]


def as_int64(value: Value) -> Value:
    """The 64-bit integers that represent timestamps or intervals."""
    return value.cast(pa.int64()) if isinstance(value, pa.Scalar) else value.view(pa.int64())


def true_flags(value: pa.Array) -> Flags:
    """Which entries of a boolean array are true; NULL is not true."""
    filled = value.fill_null(False) if value.null_count else value
    flags: Flags = filled.to_numpy(zero_copy_only=False)
    return flags


def with_nulls_of(data: np.ndarray[Any, Any], source: pa.Array, kind: pa.DataType) -> pa.Array:
    """The numbers as an Arrow array of type `kind` that is NULL where `source` is NULL."""
    return pa.array(data, kind, mask=source.is_null().to_numpy(zero_copy_only=False) if source.null_count else None)


def to_numpy(value: pa.Array, null: int | float = 0) -> np.ndarray[Any, Any]:
    """The numbers of an array, with `null` in place of NULL."""
    data: np.ndarray[Any, Any] = (value.fill_null(null) if value.null_count else value).to_numpy(zero_copy_only=False)
    return data


def require(good: Value, values: pa.Array, what: str, hint: str) -> None:
    """Raise a DataError that shows the first of `values` whose entry in `good` is false; NULL counts as good."""
    if pc.all(good).as_py() is False:
        bad = values.filter(pc.invert(good).fill_null(False))
        raise DataError(what, f"the value {bad[0].as_py()!r}", hint)
