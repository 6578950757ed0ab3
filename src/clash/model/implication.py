"""Which filters imply each other: comparisons of one column with literals, `in` lists among them.

A filter that is a *restriction* allows a set of values of one column: some values, or all between two bounds. It holds for no NULL and
cannot fail, and its literals are of types that are compared with the column without rounding. So the values that several restrictions of
a column allow are their intersection, one implies another where its set is part of the other's, and the restrictions of several queries
have a hull. All other filters imply only themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.types import UNKNOWN, digits, family, is_decimal

MAX_VALUES = 1_000  # of a hull that lists them; with more, it is the range that they span
_EXACT_INTEGER = 1 << 53  # up to here, doubles have every integer
_EXACT_DIGITS = 15  # decimals of so many digits differ as doubles, too
_MAX_PRECISION = 20  # of a decimal column: it then compares with such literals without rounding


class _Bound(NamedTuple):
    """One end of a range."""

    value: Any
    is_open: bool
    """Whether the value itself lies outside."""
    literal: Lit


@dataclass(frozen=True)
class _Restriction:
    """The values of a column that are allowed: those listed, if there is a list, and within the bounds."""

    values: Mapping[Any, Lit] | None = None
    lower: _Bound | None = None
    upper: _Bound | None = None

    def allows(self, value: Any) -> bool:
        if self.values is not None and value not in self.values:
            return False
        if self.lower is not None and (value < self.lower.value or (value == self.lower.value and self.lower.is_open)):
            return False
        return self.upper is None or not (value > self.upper.value or (value == self.upper.value and self.upper.is_open))

    def listed(self) -> dict[Any, Lit] | None:
        """The allowed values; None where they are not listed."""
        return None if self.values is None else {value: literal for value, literal in self.values.items() if self.allows(value)}

    def both(self, other: _Restriction) -> _Restriction:
        """What both allow."""
        values = self.values
        if values is None or other.values is None:
            values = other.values if values is None else values
        else:
            values = {value: literal for value, literal in values.items() if value in other.values}
        lower = max((b for b in (self.lower, other.lower) if b is not None), key=lambda b: (b.value, b.is_open), default=None)
        upper = min((b for b in (self.upper, other.upper) if b is not None), key=lambda b: (b.value, not b.is_open), default=None)
        return _Restriction(values, lower, upper)

    def is_within(self, other: _Restriction) -> bool:
        """Whether all that this allows is allowed by the other."""
        listed = self.listed()
        if listed is not None:
            return all(map(other.allows, listed))
        if other.values is not None:
            return False
        if other.lower is not None and (
            self.lower is None or (self.lower.value, self.lower.is_open) < (other.lower.value, other.lower.is_open)
        ):
            return False
        upper, limit = self.upper, other.upper
        return limit is None or (upper is not None and (upper.value, not upper.is_open) <= (limit.value, not limit.is_open))


Restrictions = dict[Col, _Restriction]


def implies(filters: Iterable[Expr], other: Expr) -> bool:
    """Whether every row for which all of the filters are true is one for which the other is.

    >>> from clash.model.relation import Relation
    >>> x = Col(Relation("R"), "x", "int")
    >>> implies([Call("=", (x, Lit(3, "int")), "boolean")], Call("<", (Lit(1, "int"), x), "boolean"))
    True
    """
    filters = list(filters)
    if other in filters:
        return True
    if isinstance(other, Call) and other.op == "isnotnull":
        return other.args[0] in restrictions(filters)
    wanted = _restriction(other)
    if wanted is None:
        return False
    column, restriction = wanted
    return column in (own := restrictions(filters)) and own[column].is_within(restriction)


def restrictions(filters: Iterable[Expr]) -> Restrictions:
    """The values of each column that the filters allow together. Those that are no restrictions are left out."""
    found: Restrictions = {}
    for expr in filters:
        if (one := _restriction(expr)) is not None:
            column, restriction = one
            found[column] = found[column].both(restriction) if column in found else restriction
    return found


def hull(filters: Sequence[Iterable[Expr]]) -> frozenset[Expr]:
    """Filters that each of the given sets of filters implies: what all of them have, and per column the smallest list or range that has all
    values which any of them allows."""
    sets = [frozenset(own) for own in filters]
    columns = [restrictions(own) for own in sets]
    common = {expr for expr in frozenset.intersection(*sets) if _restriction(expr) is None}
    for column in columns[0]:
        if all(column in own for own in columns):
            common.update(_hull_of_column(column, [own[column] for own in columns]))
    return frozenset(common)


def _hull_of_column(column: Col, parts: list[_Restriction]) -> list[Expr]:
    listed = [part.listed() for part in parts]
    if None not in listed:
        values = {value: literal for own in listed if own is not None for value, literal in own.items()}
        if 0 < len(values) <= MAX_VALUES:
            literals = sorted(values.values(), key=lambda literal: json.dumps(["lit", literal.value, literal.type]))
            return [Call("=" if len(literals) == 1 else "in", (column, *literals), "boolean")]
    lowers = [_end(part, own, min, part.lower) for part, own in zip(parts, listed, strict=True)]
    uppers = [_end(part, own, max, part.upper) for part, own in zip(parts, listed, strict=True)]
    found: list[Expr] = []
    if all(bound is not None for bound in lowers):
        lower = min((b for b in lowers if b is not None), key=lambda b: (b.value, b.is_open))
        found.append(Call("<" if lower.is_open else "<=", (lower.literal, column), "boolean"))
    if all(bound is not None for bound in uppers):
        upper = max((b for b in uppers if b is not None), key=lambda b: (b.value, not b.is_open))
        found.append(Call("<" if upper.is_open else "<=", (column, upper.literal), "boolean"))
    return found


def _end(part: _Restriction, listed: dict[Any, Lit] | None, choose: Any, bound: _Bound | None) -> _Bound | None:
    if not listed:
        return bound
    value = choose(listed)
    return _Bound(value, False, listed[value])


def _restriction(expr: Expr) -> tuple[Col, _Restriction] | None:
    """The column and the values of it that the filter allows; None for a filter that is no restriction."""
    if not isinstance(expr, Call) or expr.op not in ("=", "in", "<", "<="):
        return None
    first, *others = expr.args
    if isinstance(first, Col):
        values = [_value(first, other) for other in others]
        if not values or any(value is None for value in values):
            return None
        literals = {value: other for value, other in zip(values, others, strict=True) if isinstance(other, Lit)}
        if expr.op in ("=", "in"):
            return first, _Restriction(literals)
        return first, _Restriction(upper=_Bound(values[0], expr.op == "<", literals[values[0]]))
    (column,) = others if len(others) == 1 else (None,)
    if expr.op not in ("<", "<=") or not isinstance(first, Lit) or not isinstance(column, Col):
        return None
    value = _value(column, first)
    return None if value is None else (column, _Restriction(lower=_Bound(value, expr.op == "<", first)))


def _value(column: Col, literal: Expr) -> Any:
    """The literal's value as Python orders it, in the order in which it is compared with the column; None where that may round."""
    if not isinstance(literal, Lit) or literal.value is None:
        return None
    value, kind, own = literal.value, family(literal.type), family(column.type)
    if kind == "integer" and isinstance(value, int):
        if own == "integer" or own == UNKNOWN or (is_decimal(own) and digits(own)[0] <= _MAX_PRECISION and abs(value) < 10**_EXACT_DIGITS):
            return value
        return float(value) if own == "floating" and column.type == "double" and abs(value) <= _EXACT_INTEGER else None
    if kind == "floating" and isinstance(value, float):
        return value if literal.type == column.type == "double" and abs(value) < float("inf") else None
    if is_decimal(kind) and isinstance(value, str) and digits(kind)[0] <= _EXACT_DIGITS:
        if is_decimal(own) and digits(own)[0] <= _MAX_PRECISION:
            return Decimal(value)
        return float(value) if column.type == "double" else None
    if isinstance(value, str) and ((kind == own == "string") or (kind == own == "date" and len(value) == len("2026-01-01"))):
        return value
    return value if own == UNKNOWN and kind == "string" and isinstance(value, str) else None
