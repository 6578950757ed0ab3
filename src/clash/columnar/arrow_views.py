"""Arrow arrays as numpy arrays: views of the same memory where the layout permits that. Arrays may be slices with any offset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def fixed_width(array: pa.Array, dtype: type[np.generic], per_row: int = 1) -> NDArray[Any]:
    """The values of a fixed-width array, `per_row` of them for each row; those of NULLs are arbitrary."""
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array) * per_row, dtype)
    return np.frombuffer(buffer, dtype, len(array) * per_row, array.offset * per_row * np.dtype(dtype).itemsize)


def booleans(array: pa.Array) -> NDArray[np.bool_]:
    """The values of a boolean array."""
    return _bits(array, 1)


def validity(array: pa.Array) -> NDArray[np.bool_] | None:
    """Which rows are not NULL; None if no row is NULL."""
    return None if array.null_count == 0 else _bits(array, 0)


def offsets_and_bytes(array: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Offsets (one more than there are rows) and bytes of a string or binary array."""
    _, offsets, data = array.buffers()
    if offsets is None or len(array) == 0:
        return np.zeros(len(array) + 1, np.int32), np.empty(0, np.uint8)
    return (
        np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4),
        np.empty(0, np.uint8) if data is None or data.size == 0 else np.frombuffer(data, np.uint8),
    )


def _bits(array: pa.Array, buffer_number: int) -> NDArray[np.bool_]:
    """One of the array's bitmaps, unpacked."""
    buffer = array.buffers()[buffer_number]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), np.bool_)
    first, skip = divmod(array.offset, 8)
    packed = np.frombuffer(buffer, np.uint8, (skip + len(array) + 7) // 8, first)
    return np.unpackbits(packed, count=skip + len(array), bitorder="little")[skip:].view(np.bool_)
