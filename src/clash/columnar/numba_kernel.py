"""How loops over rows are compiled: once per machine, then loaded from numba's cache.

Every kernel has one signature: arrays reach it as read-only, contiguous, aligned views (`plain`), numbers as int or bool.
Hence nothing is ever compiled for a second kind of array, whether it was just made or is a view of a mapped file.
Numba's cache looks at the time stamp of a kernel's own file only, so a kernel calls nothing of another file but the two instructions here.
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
    """Compile on the first call, without the interpreter's lock; cached on disk where there is a place for it."""
    compiled: Any
    try:
        compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # neither beside the source nor in the user's cache folder may files be written
        compiled = numba.njit(nogil=True, error_model="numpy")(function)
    return cast(F, compiled)


def part(function: F) -> F:
    """Of a kernel in the same file: always inlined, for a call that passes arrays costs more than most loops' bodies."""
    return cast(F, numba.njit(nogil=True, error_model="numpy", forceinline=True)(function))


def _instruction(define: Callable[..., Any]) -> Any:
    """What kernels call by its arguments, but is defined by their types."""
    return intrinsic(define)


def _address(target: Any, builder: Any, kind: Any, arguments: Any, element: Any) -> Any:
    array, at = arguments
    return builder.bitcast(builder.gep(target.make_array(kind)(target, builder, array).data, [at]), element.as_pointer())


@_instruction
def prefetch(context: Any, array: Any, at: Any) -> Any:
    """In a kernel: start to load that element; it need not exist."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(target, builder, signature.args[0], arguments, ir.IntType(8))
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        builder.call(instruction, [address, number(0), number(3), number(1)])  # to read, to keep in all caches, data
        return target.get_dummy_value()

    return types.void(array, types.int64), generate


@_instruction
def eight_bytes(context: Any, array: Any, at: Any) -> Any:
    """In a kernel: the eight bytes from there on as one word, wherever they begin."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_address(target, builder, signature.args[0], arguments, ir.IntType(64)), align=1)

    return types.uint64(array, types.int64), generate


def plain(array: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """The read-only view that kernels take; a copy only if the array has another type, gaps or an odd address."""
    view = np.require(array, dtype, ("C", "A")).view()
    view.flags.writeable = False
    return view


NO_WORDS: NDArray[np.int64] = plain(np.empty(0, np.int64), np.int64)
NO_FLAGS: NDArray[np.bool_] = plain(np.empty(0, np.bool_), np.bool_)


def words_or_none(array: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """For an optional argument of a kernel; empty where there is none."""
    return NO_WORDS if array is None else plain(array, np.int64)


def flags_or_none(array: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    return NO_FLAGS if array is None else plain(array, np.bool_)
