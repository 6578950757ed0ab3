"""Evaluation of expressions over whole columns, without a loop over rows.

Invariant: an error is raised only for rows for which Spark would evaluate the expression that fails. So an expression that can raise
(a division, a cast) is evaluated only on the rows that reach it: a branch of CASE or COALESCE on the rows that no earlier branch took,
an operand of AND or OR on the rows that the operands which cannot raise leave undecided. All else is evaluated on all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import DataError
from clash.expressions import arithmetic, calendar, compare, nested, numeric, temporal, text, text_functions
from clash.expressions import cast as casts
from clash.expressions.arrow_types import arrow_type
from clash.expressions.literals import literal
from clash.expressions.values import Flags, Value, as_array, true_flags
from clash.model.coercion import VOID
from clash.model.expression_text import expression_text
from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.expressions import columns as columns_of
from clash.model.failing import can_fail
from clash.model.types import is_atomic

Columns = Callable[[Col], pa.Array]  # how a column's values are read
Kernel = Callable[[Call, list[Value], str], Value]

_KERNELS: dict[str, Kernel] = {
    **compare.KERNELS, **arithmetic.KERNELS, **numeric.KERNELS, **text.KERNELS, **text_functions.KERNELS, **temporal.KERNELS,
    **calendar.KERNELS, **casts.KERNELS, **nested.KERNELS,
}  # fmt: skip
_ACCEPTS_VOID = {"<=>", "in", "greatest", "least", "isnull", "isnotnull", "cast"}


def evaluate(expr: Expr, columns: Columns, rows: int, timezone: str) -> pa.Array:
    """The expression's value in every row, as an array of type `arrow_type(expr.type)`; raises DataError where Spark's ANSI mode raises.

    `columns` gives the array of `rows` values of a column and is called at most once for each. `timezone` is the session's time zone.
    """
    if rows == 0:
        return pa.array([], arrow_type(expr.type))
    return as_array(_Frame(columns, rows, timezone).value(expr), rows)


def holds(exprs: Sequence[Expr], columns: Columns, rows: int, timezone: str) -> Flags | None:
    """Which rows satisfy all of the boolean expressions; None if there are no expressions.

    Those that can raise are evaluated last, and only on the rows that satisfy the others.
    """
    if not exprs:
        return None
    frame, satisfied = _Frame(columns, rows, timezone), np.ones(rows, dtype=np.bool_)
    for number, expr in enumerate(sorted(exprs, key=can_fail)):
        if rows == 0 or (number and not satisfied.any()):
            break
        mask = None if number == 0 or not can_fail(expr) else pa.array(satisfied)
        satisfied &= true_flags(as_array(frame.value_where(expr, mask), rows))
    return satisfied


class _Frame:
    """The rows on which expressions are evaluated. Each of their columns is read once."""

    def __init__(self, columns: Columns, rows: int, timezone: str) -> None:
        self.columns, self.rows, self.timezone = columns, rows, timezone
        self.cached: dict[Col, pa.Array] = {}

    def value(self, expr: Expr) -> Value:
        if isinstance(expr, Col):
            return self.column(expr)
        if isinstance(expr, Lit):
            return literal(expr, self.timezone)
        if expr.type == VOID:
            return pa.scalar(None, pa.null())
        if expr.op in _LAZY:
            if self.rows > 1 and not any(columns_of(expr)):
                return _Frame(self.columns, 1, self.timezone).array(expr)[0]  # a constant
            return _LAZY[expr.op](self, expr)
        if expr.op not in _ACCEPTS_VOID and any(arg.type == VOID for arg in expr.args):
            return pa.scalar(None, arrow_type(expr.type))
        return self.call(expr, [self.value(arg) for arg in expr.args])

    def array(self, expr: Expr) -> pa.Array:
        return as_array(self.value(expr), self.rows)

    def column(self, col: Col) -> pa.Array:
        values = self.cached.get(col)
        if values is None:
            values = self.columns(col)
            if is_atomic(col.type) and values.type != arrow_type(col.type):
                values = values.cast(arrow_type(col.type))  # for example from large_string, or from another label of the time zone
            self.cached[col] = values
        return values

    def call(self, call: Call, args: list[Value]) -> Value:
        """Run the kernel of a call; an error gets the expression's text as its detail."""
        kernel = _KERNELS[call.op]
        constant = all(isinstance(arg, pa.Scalar) for arg in args)
        try:
            if constant:
                return kernel(call, [pa.repeat(arg, 1) for arg in args], self.timezone)[0]
            return kernel(call, args, self.timezone)
        except DataError as error:
            raise DataError(error.what, f"{expression_text(call)}{': ' + error.detail if error.detail else ''}", error.hint) from None
        except pa.ArrowInvalid:
            raise DataError(
                "a number is out of range", expression_text(call), f"the result does not fit {call.type}; CAST to a wider type"
            ) from None

    def value_where(self, expr: Expr, mask: pa.Array | None) -> Value:
        """The value in the rows of the mask (None: all rows). Other rows have an arbitrary value and never raise."""
        if mask is None or not can_fail(expr):
            return self.value(expr)
        count = mask.true_count
        if count == self.rows:
            return self.value(expr)
        if count == 0:
            return pa.scalar(None, arrow_type(expr.type))
        selected = _Frame(lambda col: self.column(col).filter(mask), count, self.timezone)
        return pc.replace_with_mask(pa.nulls(self.rows, arrow_type(expr.type)), mask, selected.array(expr))


def _connective(combine: Callable[[Any, Any], Any], neutral: bool) -> Callable[[_Frame, Call], Value]:
    """AND or OR: the operands that cannot raise first, the others on the rows that these leave undecided.

    `neutral` is the value that leaves a row undecided, as NULL does: true for AND, false for OR.
    """

    def connect(frame: _Frame, call: Call) -> Value:
        result: Value = None
        for arg in sorted(call.args, key=can_fail):
            undecided = None
            if result is not None and can_fail(arg):
                filled = pc.fill_null(as_array(result, frame.rows), neutral)
                undecided = filled if neutral else pc.invert(filled)
            value = frame.value_where(arg, undecided)
            if arg.type == VOID:
                value = pa.scalar(None, pa.bool_())
            result = value if result is None else combine(result, value)
        return result

    return connect


def _case(frame: _Frame, call: Call) -> Value:
    """Each row takes the first branch whose condition is true; conditions and results are evaluated only on rows that reach them."""
    *branches, default = call.args
    remaining: pa.Array | None = None  # the rows that no branch has taken so far; None is all rows
    taken: list[tuple[pa.Array, Value]] = []
    for condition, result in zip(branches[::2], branches[1::2], strict=True):
        if condition.type == VOID:
            continue
        matching = pc.fill_null(as_array(frame.value_where(condition, remaining), frame.rows), False)
        matching = matching if remaining is None else pc.and_(matching, remaining)
        taken.append((matching, _cast(frame, frame.value_where(result, matching), result, call.type)))
        remaining = pc.invert(matching) if remaining is None else pc.and_not(remaining, matching)
    values = _cast(frame, frame.value_where(default, remaining), default, call.type)
    for matching, value in taken:
        values = pc.if_else(matching, value, values)
    return values


def _coalesce(frame: _Frame, call: Call) -> Value:
    values: Value = None
    for arg in call.args:
        missing = None if values is None else pc.is_null(as_array(values, frame.rows))
        if missing is not None and missing.true_count == 0:
            break
        value = _cast(frame, frame.value_where(arg, missing), arg, call.type)
        values = value if values is None else pc.coalesce(values, value)
    return values


def _cast(frame: _Frame, value: Value, expr: Expr, kind: str) -> Value:
    return casts.cast_value(value, expr.type, kind, frame.timezone)


_LAZY: dict[str, Callable[[_Frame, Call], Value]] = {
    "and": _connective(pc.and_kleene, True),
    "or": _connective(pc.or_kleene, False),
    "case": _case,
    "coalesce": _coalesce,
}
