"""Equalities between expressions that are the only link between relations, as joins on columns that Spark computes.

`a.x % 5 = b.x % 5` beside an equality of columns is checked on joined rows. Where no equality of columns connects the two relations, both
sides become columns, and their equality a key. `<=>` is one, too: NULL has a key like any other value.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from clash.errors import QueryError
from clash.model.expressions import Col, Expr, relations
from clash.model.relation import Attribute
from clash.model.types import is_atomic, joinable
from clash.sql.computed import computed_column
from clash.sql.convert import convert_expression
from clash.sql.query_source import QuerySource
from clash.sql.scope import Scope

_INEXACT_TEXT = ("float", "double")  # 0.0 and -0.0 are equal, their texts are not


class Equality(NamedTuple):
    """A condition that may become a key."""

    conjunct: Expr
    node: exp.Expression
    """`=` or `<=>`."""
    scope: Scope


def key_pair(equality: Equality, source: QuerySource, error: QueryError) -> tuple[Attribute, Attribute] | None:
    """The columns whose equality a condition between two relations implies; None if it has none. `error`: where they cannot be computed."""
    left, right = equality.node.this.unnest(), equality.node.expression.unnest()
    if len(relations(equality.conjunct)) != 2 or isinstance(left, exp.Query) or isinstance(right, exp.Query):
        return None
    sides = [convert_expression(side, equality.scope, source) for side in (left, right)]
    if any(len(relations(side)) != 1 for side in sides) or relations(sides[0]) == relations(sides[1]):
        return None
    types = [side.type for side in sides]
    if isinstance(equality.node, exp.NullSafeEQ):
        if types[0] != types[1] or not is_atomic(types[0]) or types[0] in (*_INEXACT_TEXT, "binary"):
            return None
        columns = [computed_column(_null_safe(node), equality.scope, source, error) for node in (left, right)]
    elif not joinable(*types):
        return None
    else:
        columns = [
            side if isinstance(side, Col) else computed_column(node, equality.scope, source, error)
            for side, node in zip(sides, (left, right), strict=True)
        ]
    first, second = (Attribute(column.relation, column.column) for column in columns)
    return first, second


def _null_safe(node: exp.Expression) -> exp.Expression:
    """A text that is equal for equal values, and never NULL."""
    text = exp.Concat(expressions=[exp.Literal.string("v"), exp.cast(node.copy(), "string", dialect="spark")])
    return exp.If(this=exp.Is(this=node.copy(), expression=exp.Null()), true=exp.Literal.string("n"), false=text)
