"""Compilation of loops over rows: once per machine, after that they are loaded from numba's cache.

Invariant: every kernel has one signature. Arrays are passed as read-only, contiguous, aligned views (`kernel_view`), numbers as int or
bool. Hence no kernel is compiled a second time for another kind of array, whether it is new or a view of a mapped file.

Numba invalidates its cache by the time stamp of a kernel's own file only. So a kernel must not call functions of another file, except
the two instructions defined here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile on the first call. It runs without the interpreter's lock and is cached on disk where numba finds a folder for that."""
    compiled: Any
    try:
        compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # neither the folder of the source file nor the user's cache folder is writable
        compiled = numba.njit(nogil=True, error_model="numpy")(function)
    return cast(F, compiled)


def inlined(function: F) -> F:
    """A function for kernels of the same file. It is always inlined: a call that passes arrays costs more than the body of most loops."""
    return cast(F, numba.njit(nogil=True, error_model="numpy", forceinline=True)(function))


def _instruction(define: Callable[..., Any]) -> Any:
    """A function that kernels call with values, while `define` gets the types of these and generates LLVM code for them."""
    return intrinsic(define)


def _address(target: Any, builder: Any, kind: Any, arguments: Any, element: Any) -> Any:
    """A pointer to the array's element of that number, as a pointer to `element`."""
    array, position = arguments
    return builder.bitcast(builder.gep(target.make_array(kind)(target, builder, array).data, [position]), element.as_pointer())


@_instruction
def prefetch(context: Any, array: Any, position: Any) -> Any:
    """For kernels: start to load an element into the cache. A position outside the array has no effect."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(target, builder, signature.args[0], arguments, ir.IntType(8))
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        builder.call(instruction, [address, number(0), number(3), number(1)])  # for reading, into all cache levels, data not code
        return target.get_dummy_value()

    return types.void(array, types.int64), generate


@_instruction
def load_eight_bytes(context: Any, array: Any, position: Any) -> Any:
    """For kernels: eight bytes, from that position on, as one word; the position need not be aligned."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_address(target, builder, signature.args[0], arguments, ir.IntType(64)), align=1)

    return types.uint64(array, types.int64), generate


def kernel_view(array: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """The read-only view that kernels take; a copy only if the array has another type, is not contiguous or not aligned."""
    flags = array.flags  # np.require checks the same, in ten times the time
    plain = array.dtype == dtype and flags.c_contiguous and flags.aligned
    view = array.view() if plain else np.require(array, dtype, ("C", "A")).view()
    view.flags.writeable = False
    return view


_NO_WORDS: NDArray[np.int64] = kernel_view(np.empty(0, np.int64), np.int64)
_NO_FLAGS: NDArray[np.bool_] = kernel_view(np.empty(0, np.bool_), np.bool_)


def words_or_empty(array: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """An optional argument of a kernel; None is passed as an empty array."""
    return _NO_WORDS if array is None else kernel_view(array, np.int64)


def flags_or_empty(array: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """An optional argument of a kernel; None is passed as an empty array."""
    return _NO_FLAGS if array is None else kernel_view(array, np.bool_)
