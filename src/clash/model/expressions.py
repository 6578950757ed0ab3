"""Scalar expressions as plain frozen data, with Spark's semantics.

The SQL front end produces them, the planner compares them to find what queries share, physical plans carry them, workers evaluate them.
Two predicates are the same only if their expressions are equal, so the front end brings every expression into one normal form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clash.model.relation import Relation


@dataclass(frozen=True, slots=True)
class Col:
    """A column of a relation, with its Spark type."""

    relation: Relation
    column: str
    type: str

    def __str__(self) -> str:
        return f"{self.relation}.{self.column}"


@dataclass(frozen=True, slots=True)
class Lit:
    """A literal."""

    value: int | float | str | bool | None
    """A value of JSON: dates and timestamps are ISO text, decimals are text, intervals are microseconds."""
    type: str

    def __str__(self) -> str:
        return "NULL" if self.value is None else repr(self.value)


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function applied to arguments."""

    op: str
    """One of the operators and functions that `clash.sql.functions` lists."""
    args: tuple[Expr, ...]
    type: str
    """The type of the result; for `cast` the target type."""

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.args))})"


Expr = Col | Lit | Call


def columns(expr: Expr) -> Iterator[Col]:
    """Every column of the expression, from left to right, repeats included."""
    if isinstance(expr, Col):
        yield expr
    elif isinstance(expr, Call):
        for arg in expr.args:
            yield from columns(arg)


def relations(expr: Expr) -> frozenset[Relation]:
    """The relations whose columns the expression uses."""
    return frozenset(column.relation for column in columns(expr))
