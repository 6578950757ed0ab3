"""Expressions over whole columns: no loop over rows, and no row computes what Spark would not compute for it.

What can raise (a division, a cast) runs only on the rows that reach it: a branch of CASE or COALESCE on the rows that no earlier branch
took, an operand of AND or OR on the rows that the operands which cannot raise leave open. All else runs on all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import DataError
from clash.expressions import arithmetic, compare, temporal, text
from clash.expressions import cast as casts
from clash.expressions.literals import literal
from clash.expressions.arrow_types import arrow_type
from clash.expressions.values import Flags, Value, as_array, flags
from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.expressions import columns as columns_of
from clash.model.types import family, is_atomic
from clash.model.coercion import VOID

Columns = Callable[[Col], pa.Array]
Kernel = Callable[[Call, list[Value], str], Value]

_KERNELS: dict[str, Kernel] = {**compare.KERNELS, **arithmetic.KERNELS, **text.KERNELS, **temporal.KERNELS, **casts.KERNELS}
_TAKES_NULL = {"<=>", "in", "greatest", "least", "isnull", "isnotnull", "cast"}
_RAISING = {"+", "-", "*", "/", "%", "neg", "abs", "round", "floor", "ceil", "cast", "substring"}
_WIDENING = {"tinyint": 1, "smallint": 2, "int": 3, "bigint": 4, "float": 5, "double": 6}


def evaluate(expr: Expr, columns: Columns, rows: int, timezone: str) -> pa.Array:
    """The expression's value in every row, of `arrow_type(expr.type)`; `DataError` where Spark's ANSI mode raises."""
    if rows == 0:
        return pa.array([], arrow_type(expr.type))
    return as_array(_Frame(columns, rows, timezone).value(expr), rows)


def holds(exprs: Sequence[Expr], columns: Columns, rows: int, timezone: str) -> Flags | None:
    """Are all of them true in a row? None if there are none."""
    if not exprs:
        return None
    frame, found = _Frame(columns, rows, timezone), np.ones(rows, dtype=np.bool_)
    for at, expr in enumerate(sorted(exprs, key=_raises)):
        if rows == 0 or (at and not found.any()):
            break
        reached = None if at == 0 or not _raises(expr) else pa.array(found)
        found &= flags(as_array(frame.reached(expr, reached), rows))
    return found


def _raises(expr: Expr) -> bool:
    if not isinstance(expr, Call):
        return False
    if expr.op in _RAISING and not _safe(expr):
        return True
    return any(_raises(arg) for arg in expr.args)


def _safe(call: Call) -> bool:
    if call.op == "cast":
        source = call.args[0].type
        return call.type == "string" or (source in _WIDENING and _WIDENING.get(call.type, 0) >= _WIDENING[source])
    return family(call.type) == "floating" and call.op in ("+", "-", "*", "neg", "abs", "round")


class _Frame:
    """Some rows: their columns, each asked for once."""

    def __init__(self, columns: Columns, rows: int, timezone: str) -> None:
        self.columns, self.rows, self.timezone = columns, rows, timezone
        self.held: dict[Col, pa.Array] = {}

    def value(self, expr: Expr) -> Value:
        if isinstance(expr, Col):
            return self.column(expr)
        if isinstance(expr, Lit):
            return literal(expr, self.timezone)
        if expr.type == VOID:
            return pa.scalar(None, pa.null())
        if expr.op in _LAZY:
            if self.rows > 1 and not any(columns_of(expr)):
                return _Frame(self.columns, 1, self.timezone).array(expr)[0]
            return _LAZY[expr.op](self, expr)
        if expr.op not in _TAKES_NULL and any(arg.type == VOID for arg in expr.args):
            return pa.scalar(None, arrow_type(expr.type))
        return self.call(expr, [self.value(arg) for arg in expr.args])

    def array(self, expr: Expr) -> pa.Array:
        return as_array(self.value(expr), self.rows)

    def column(self, col: Col) -> pa.Array:
        found = self.held.get(col)
        if found is None:
            found = self.columns(col)
            if is_atomic(col.type) and found.type != arrow_type(col.type):
                found = found.cast(arrow_type(col.type))  # e.g. another label of the time zone, or long strings
            self.held[col] = found
        return found

    def call(self, call: Call, args: list[Value]) -> Value:
        kernel = _KERNELS[call.op]
        constant = all(isinstance(arg, pa.Scalar) for arg in args)
        try:
            if constant:
                return kernel(call, [pa.repeat(arg, 1) for arg in args], self.timezone)[0]
            return kernel(call, args, self.timezone)
        except DataError as error:
            raise DataError(error.what, f"{_written(call)}{': ' + error.detail if error.detail else ''}", error.hint) from None
        except pa.ArrowInvalid:
            raise DataError(
                "a number is out of range", _written(call), f"the result does not fit {call.type}; CAST to a wider type"
            ) from None

    def reached(self, expr: Expr, mask: pa.Array | None) -> Value:
        """The value in the rows of the mask; in the others it may be anything, but nothing there raises."""
        if mask is None or not _raises(expr):
            return self.value(expr)
        count = mask.true_count
        if count == self.rows:
            return self.value(expr)
        if count == 0:
            return pa.scalar(None, arrow_type(expr.type))
        part = _Frame(lambda col: self.column(col).filter(mask), count, self.timezone)
        return pc.replace_with_mask(pa.nulls(self.rows, arrow_type(expr.type)), mask, part.array(expr))


def _written(call: Call) -> str:
    from clash.explain.wording import predicate  # only when something went wrong: workers do without the planner

    return predicate(call)


def _connective(join: Callable[[Any, Any], Any], open_if_null: bool) -> Callable[[_Frame, Call], Value]:
    """AND, OR: those that cannot raise first, the others where these leave it open."""

    def connect(frame: _Frame, call: Call) -> Value:
        found: Value = None
        for arg in sorted(call.args, key=_raises):
            reached = None
            if found is not None and _raises(arg):
                decided = pc.fill_null(as_array(found, frame.rows), open_if_null)
                reached = decided if open_if_null else pc.invert(decided)
            value = frame.reached(arg, reached)
            if arg.type == VOID:
                value = pa.scalar(None, pa.bool_())
            found = value if found is None else join(found, value)
        return found

    return connect


def _case(frame: _Frame, call: Call) -> Value:
    """Every row takes the first branch whose condition is true; conditions and values see only rows that get to them."""
    *branches, other = call.args
    left: pa.Array | None = None  # rows that no branch took so far; None is all
    taken: list[tuple[pa.Array, Value]] = []
    for condition, result in zip(branches[::2], branches[1::2], strict=True):
        if condition.type == VOID:
            continue
        hit = pc.fill_null(as_array(frame.reached(condition, left), frame.rows), False)
        hit = hit if left is None else pc.and_(hit, left)
        taken.append((hit, _as(frame, frame.reached(result, hit), result, call.type)))
        left = pc.invert(hit) if left is None else pc.and_not(left, hit)
    found = _as(frame, frame.reached(other, left), other, call.type)
    for hit, value in taken:
        found = pc.if_else(hit, value, found)
    return found


def _coalesce(frame: _Frame, call: Call) -> Value:
    found: Value = None
    for arg in call.args:
        missing = None if found is None else pc.is_null(as_array(found, frame.rows))
        if missing is not None and missing.true_count == 0:
            break
        value = _as(frame, frame.reached(arg, missing), arg, call.type)
        found = value if found is None else pc.coalesce(found, value)
    return found


def _as(frame: _Frame, value: Value, expr: Expr, kind: str) -> Value:
    return casts.bring(value, expr.type, kind, frame.timezone)


_LAZY: dict[str, Callable[[_Frame, Call], Value]] = {
    "and": _connective(pc.and_kleene, True),
    "or": _connective(pc.or_kleene, False),
    "case": _case,
    "coalesce": _coalesce,
}
