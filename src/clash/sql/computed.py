"""Expressions over one stream that the evaluator does not know, as columns that Spark computes.

A conversion that fails looks for a computed column in the place of its node: the innermost node that Spark can compute becomes one. The
types of these columns are Spark's, which this package does not know. So a query is parsed until it needs a column that its streams do not
have yet (`UncomputedError`); the caller asks Spark for the type, adds the column, and parses again.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

from sqlglot import exp
from sqlglot.errors import SqlglotError

from clash.errors import QueryError
from clash.model.computed import REFUSED, computed_name
from clash.model.expressions import Col, Expr
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.sql.query_source import QuerySource
from clash.sql.scope import Alias, Scope

# What an expression over the rows of one stream cannot have; Spark refuses the rest.
_NOT_ROWWISE = (exp.Query, exp.AggFunc, exp.Window, exp.Star, exp.Explode, exp.Posexplode, exp.Inline, exp.Placeholder, exp.Parameter)


_MAX_NODES, _MAX_TEXT = 300, 10_000  # of an expression


class UncomputableError(Exception):
    """Why Spark cannot compute an expression over a stream."""


class UncomputedError(QueryError):
    """A query needs a column that is not computed yet. To a user it is the error of the expression that is not supported."""

    def __init__(self, error: QueryError, stream: str, expression: str) -> None:
        super().__init__(error.what, error.detail, error.hint)
        self.stream, self.expression = stream, expression


class _FinalError(QueryError):
    """An error that no larger expression removes: it names what no column can be computed of."""


def computed_column(node: exp.Expression, scope: Scope, source: QuerySource, error: QueryError) -> Col:
    """The column for a node; raises `error`, which its conversion failed with, where there can be none."""
    if isinstance(error, UncomputedError | _FinalError) or not scope.declared:
        raise error
    if isinstance(node, _NOT_ROWWISE) or sum(1 for _ in islice(node.walk(), _MAX_NODES)) == _MAX_NODES:
        raise _FinalError(error.what, error.detail, error.hint)
    found = _over_one_alias(node, scope, source)
    if found is None:
        raise _FinalError(error.what, error.detail, error.hint)
    alias, expression = found
    if alias is None:  # a constant: a larger expression may name a column
        raise error
    kind = alias.stream.type_of(computed_name(expression))
    if kind is None:
        raise UncomputedError(error, alias.stream.name, expression) from None
    if kind == REFUSED:
        raise error
    return Col(alias.relation, computed_name(expression), kind)


def _over_one_alias(node: exp.Expression, scope: Scope, source: QuerySource) -> tuple[Alias | None, str] | None:
    """The alias whose columns alone an expression names, None if it names no column, and the expression in Spark's SQL over the columns of
    that stream. None if it cannot be computed of one stream."""
    copy = exp.Paren(this=node.copy())  # a root that is not replaced
    aliases: dict[Relation, Alias] = {}
    has_parameters = copy.find(exp.Lambda) is not None
    for column in list(copy.find_all(exp.Column)):
        if has_parameters and _is_parameter(column):
            continue
        try:
            col, fields = _resolve(column, scope, source)
        except QueryError:
            return None
        if not isinstance(col, Col):  # a column of a derived table that our evaluator computes
            return None
        alias = aliases.setdefault(col.relation, scope.alias_of(col.relation))
        replacement = _in_spark(alias.stream, col.column)
        for field in fields:
            replacement = exp.Dot(this=replacement, expression=exp.to_identifier(field, quoted=True))
        column.replace(replacement)
    if len(aliases) > 1 or copy.find(*_NOT_ROWWISE) is not None:
        return None
    try:
        expression = copy.this.sql(dialect="spark", comments=False)
    except (SqlglotError, ValueError):  # a node of our own parser
        return None
    return (next(iter(aliases.values()), None), expression) if len(expression) < _MAX_TEXT else None


def _resolve(node: exp.Column, scope: Scope, source: QuerySource) -> tuple[Expr, list[str]]:
    """What a name stands for, and the fields inside of it. As in Spark, `a.b` is the column b of the table a, if there is one, otherwise
    the field b of the column a."""
    names = [part.name for part in node.parts]
    if len(names) > 1:
        with suppress(QueryError):
            return scope.resolve_column(source, _named(node, names[1], names[0])), names[2:]
    return scope.resolve_column(source, _named(node, names[0])), names[1:]


def _named(node: exp.Column, name: str, table: str | None = None) -> exp.Column:
    """A name of one or two parts, at the place of a longer one."""
    column = exp.column(name, table=table, quoted=True)
    column.meta.update(node.meta)
    return column


def _in_spark(stream: Stream, column: str) -> exp.Expression:
    """A column of a stream, or the expression that it is computed by."""
    expression = next((expression for name, _, expression in stream.computed if name == column), None)
    if expression is None:
        return exp.column(exp.to_identifier(column, quoted=True))
    return exp.paren(exp.maybe_parse(expression, dialect="spark"))


def _is_parameter(node: exp.Column) -> bool:
    """Whether a name is a parameter of a lambda around it."""
    found = node.find_ancestor(exp.Lambda)
    while found is not None:
        if node.parts[0].name in {parameter.name for parameter in found.expressions}:
            return True
        found = found.find_ancestor(exp.Lambda)
    return False
