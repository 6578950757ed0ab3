"""Equalities between expressions that are the only link between relations, as joins on columns that tasks compute.

`a.x % 5 = b.x % 5` beside an equality of columns is checked on joined rows. Where no equality of columns connects the two relations, both
sides become columns, and their equality a key. `<=>` is one, too: NULL has a key like any other value.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from clash.errors import QueryError
from clash.model.computed import ComputedColumn
from clash.model.expression_text import expression_text
from clash.model.expressions import Call, Col, Expr, Lit, relations
from clash.model.projection import needs_spark
from clash.model.relation import Attribute, Relation
from clash.model.types import is_atomic, joinable
from clash.sql.computed import UnevaluatedError, computed_expression
from clash.sql.functions import typed
from clash.sql.implicit_casts import cast_expression
from clash.sql.normal_form import normalise
from clash.sql.query_source import QuerySource, Span
from clash.sql.scope import Scope

_INEXACT_TEXT = ("float", "double")  # 0.0 and -0.0 are equal, their texts are not


class Equality(NamedTuple):
    """A condition that may become a key."""

    conjunct: Expr
    sides: tuple[Expr, Expr]
    nodes: tuple[exp.Expression, exp.Expression] | None
    """The sides in the text; None for USING."""
    is_null_safe: bool
    """Whether it is `<=>`, and not `=`."""
    span: Span
    scope: Scope


def key_pair(equality: Equality, source: QuerySource, error: QueryError) -> tuple[Attribute, Attribute] | None:
    """The columns whose equality a condition between two relations implies; None if it has none. `error`: where they cannot be computed."""
    sides = equality.sides
    if any(len(relations(side)) != 1 for side in sides) or relations(sides[0]) == relations(sides[1]):
        return None
    if any(map(needs_spark, sides)):
        hint = "read the topic with Spark, as a DataFrame; or add an equality of columns, or of expressions that tasks evaluate"
        raise source.error(equality.span, "a key of a stream that only tasks read cannot be computed by Spark", hint)
    types = [side.type for side in sides]
    pairs = list(zip(sides, equality.nodes or (None, None), strict=True))
    if equality.is_null_safe:
        if types[0] != types[1] or not is_atomic(types[0]) or types[0] in (*_INEXACT_TEXT, "binary"):
            return None
        columns = [_column(_null_safe(side), _null_safe_node(node), equality.scope, source, error) for side, node in pairs]
    elif not joinable(*types):
        return None
    else:
        columns = [side if isinstance(side, Col) else _column(side, node, equality.scope, source, error) for side, node in pairs]
    first, second = (Attribute(column.relation, column.column) for column in columns)
    return first, second


def _column(side: Expr, node: exp.Expression | None, scope: Scope, source: QuerySource, error: QueryError) -> Col:
    """The column that tasks compute for an expression over one relation; of a table Spark does, where it reads the table."""
    (relation,) = relations(side)
    if scope.alias_of(relation).stream.is_table:
        if node is None:
            raise error
        is_converted = isinstance(node, exp.Column) and isinstance(side, Call) and side.op == "cast"
        found = computed_expression(exp.cast(node.copy(), side.type) if is_converted else node, scope, source, error, is_output=False)
        if not isinstance(found, Col):
            raise error
        return found
    expression = _over_stream(normalise(side))
    column = ComputedColumn(relation.stream, expression_text(expression), side.type, expression)
    kind = scope.alias_of(relation).stream.type_of(column.name)
    if kind is None:
        raise UnevaluatedError(error, column) if scope.declared else error
    return Col(relation, column.name, kind)


def _over_stream(expr: Expr) -> Expr:
    """The expression over the columns of the stream, whichever of its aliases it is of."""
    if isinstance(expr, Col):
        return Col(Relation(expr.relation.stream), expr.column, expr.type)
    return Call(expr.op, tuple(map(_over_stream, expr.args)), expr.type) if isinstance(expr, Call) else expr


def _null_safe_node(node: exp.Expression | None) -> exp.Expression | None:
    """The same as `_null_safe`, in the syntax."""
    if node is None:
        return None
    text = exp.Concat(expressions=[exp.Literal.string("v"), exp.cast(node.copy(), "string", dialect="spark")])
    return exp.If(this=exp.Is(this=node.copy(), expression=exp.Null()), true=exp.Literal.string("n"), false=text)


def _null_safe(side: Expr) -> Expr:
    """A text that is equal for equal values, and never NULL."""
    text = typed("concat", (Lit("v", "string"), cast_expression(side, "string") if side.type != "string" else side))
    return typed("case", (typed("isnull", (side,)), Lit("n", "string"), text))
