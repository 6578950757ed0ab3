"""Expressions that the evaluator does not know: Spark computes them.

A conversion that fails looks for an expression of Spark's in the place of its node: the innermost node that Spark can compute becomes one.
Over one stream it is a column that Spark computes where the stream is read. Over several, or where that is not possible, it is SQL over the
joined rows (`clash.model.projection`). The types are Spark's, which this package does not know. So a query is parsed until it needs an
expression whose type is not known yet (`UncomputedError`); the caller asks Spark for the type, and parses again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from sqlglot import exp
from sqlglot.errors import SqlglotError

from clash.errors import QueryError
from clash.model.computed import REFUSED, ComputedColumn, computed_name
from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.projection import BY_SPARK, is_by_spark, joined_name
from clash.model.stream import Stream
from clash.sql.normal_form import normalise
from clash.sql.projection import column_sql
from clash.sql.query_source import QuerySource, adjacent_strings
from clash.sql.scope import AMBIGUOUS, Scope

# What an expression over single rows cannot have; Spark refuses the rest.
_NOT_ROWWISE = (exp.Query, exp.AggFunc, exp.Window, exp.Star, exp.Explode, exp.Posexplode, exp.Inline, exp.Placeholder, exp.Parameter)


_NAMED_BY_COLUMNS = ("arrays_zip",)  # functions of which fields have the names of columns, which joined rows have not
_MAX_NODES, _MAX_TEXT = 300, 10_000  # of an expression


class UncomputableError(Exception):
    """Why Spark cannot compute an expression."""


@dataclass(frozen=True, slots=True)
class SparkExpression:
    """An expression that Spark may compute, in its SQL."""

    joined: str
    """Over columns of the joined rows."""
    columns: tuple[Expr, ...]
    """What the columns are that it names."""
    stream: Stream | None
    """The stream whose columns alone it names, if it can be computed of them."""
    over_stream: str
    """Over columns of that stream."""

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Names and types of the columns of joined rows that it names."""
        return tuple((joined_name(column), column.type) for column in self.columns)


class UncomputedError(QueryError):
    """A query needs an expression of Spark's whose type is not known yet. To a user it is the error of what is not supported.
    `is_output`: whether only results have it."""

    def __init__(self, error: QueryError, expression: SparkExpression, is_output: bool) -> None:
        super().__init__(error.what, error.detail, error.hint)
        self.expression, self.is_output = expression, is_output


class UnevaluatedError(QueryError):
    """A query needs a column that tasks compute, which its stream does not have yet."""

    def __init__(self, error: QueryError, column: ComputedColumn) -> None:
        super().__init__(error.what, error.detail, error.hint)
        self.column = column


class _FinalError(QueryError):
    """An error that no larger expression removes: it names what Spark cannot compute."""


def computed_expression(node: exp.Expression, scope: Scope, source: QuerySource, error: QueryError, is_output: bool) -> Expr:
    """The column, or the expression over joined rows, for a node; raises `error`, which its conversion failed with, where there can be
    none."""
    if isinstance(error, UncomputedError | _FinalError) or not scope.declared:
        raise error
    found = _read(node, scope, source)
    if found is None:
        raise _FinalError(error.what, error.detail, error.hint)
    if not found.columns:  # a constant: a larger expression may name a column
        raise error
    if found.stream is not None:
        kind = found.stream.type_of(computed_name(found.over_stream))
        if kind is not None:
            column = found.columns[0]
            assert isinstance(column, Col)
            return Col(column.relation, computed_name(found.over_stream), _accepted(kind, error))
    return _over_joined_rows(found, scope, error, is_output)


def whole_by_spark(node: exp.Expression, scope: Scope, source: QuerySource, is_output: bool) -> Expr:
    """A node of which Spark computes a part, as one expression over joined rows."""
    error = source.error(node, "this expression is not supported", "compute a part of it before the stream is registered")
    found = _read(node, scope, source)
    if found is None:
        raise error
    return _over_joined_rows(found, scope, error, is_output)


def _over_joined_rows(found: SparkExpression, scope: Scope, error: QueryError, is_output: bool) -> Expr:
    kind = scope.joined_types.get(found.joined)
    if kind is None:
        raise UncomputedError(error, found, is_output) from None
    return Call(BY_SPARK, (Lit(found.joined, "string"), *found.columns), _accepted(kind, error))


def _accepted(kind: str, error: QueryError) -> str:
    if kind == REFUSED:
        raise error
    return kind


def _read(node: exp.Expression, scope: Scope, source: QuerySource) -> SparkExpression | None:
    """A node as Spark reads it; None if Spark cannot compute it of single rows."""
    if isinstance(node, _NOT_ROWWISE) or sum(1 for _ in islice(node.walk(), _MAX_NODES)) == _MAX_NODES:
        return None
    plain = _as_written(exp.Paren(this=node.copy()), source)  # a root that is not replaced
    joined, over_stream = plain, plain.copy()
    columns: dict[str, Expr] = {}
    streams: list[Stream | None] = []
    has_parameters = joined.find(exp.Lambda) is not None
    pairs = zip(list(joined.find_all(exp.Column)), list(over_stream.find_all(exp.Column)), strict=True)
    for in_joined, in_stream in pairs:
        if has_parameters and _is_parameter(in_joined):
            continue
        try:
            expr, fields = resolve_with_fields(in_joined, scope, source)
        except QueryError:
            return None
        expr = normalise(expr)
        in_joined.replace(_with_fields(_in_joined_rows(expr, columns), fields))
        stream = scope.alias_of(expr.relation).stream if isinstance(expr, Col) else None
        streams.append(stream)
        if isinstance(expr, Col) and stream is not None:
            in_stream.replace(_with_fields(_in_stream(stream, expr.column), fields))
    if joined.find(*_NOT_ROWWISE) is not None:
        return None
    is_named_by_columns = any(call.name.lower() in _NAMED_BY_COLUMNS for call in joined.find_all(exp.Anonymous))
    is_of_one = None not in streams and len({column.relation for column in columns.values() if isinstance(column, Col)}) == 1
    try:
        texts = [tree.this.sql(dialect="spark", comments=False) for tree in (joined, *((over_stream,) if is_of_one else ()))]
    except (SqlglotError, ValueError):  # a node of our own parser
        return None
    if max(map(len, texts)) >= _MAX_TEXT:
        return None
    if is_named_by_columns and not is_of_one:
        return None
    return SparkExpression(texts[0], tuple(columns.values()), streams[0] if is_of_one else None, texts[-1] if is_of_one else "")


def _as_written(tree: exp.Expression, source: QuerySource) -> exp.Expression:
    """The tree, changed where sqlglot would write another meaning: literals side by side, of which it makes a CONCAT, and sums of the parts
    of an interval, which have no parentheses."""
    for concat in list(tree.find_all(exp.Concat)):
        text = adjacent_strings(source, concat.expressions)
        if text is not None:
            concat.replace(exp.Literal.string(text))
    for binary in list(tree.find_all(exp.Binary)):
        if isinstance(binary.expression, exp.Add | exp.Sub):
            binary.set("expression", exp.Paren(this=binary.expression.copy()))
    return tree


def resolve_with_fields(node: exp.Column, scope: Scope, source: QuerySource) -> tuple[Expr, list[str]]:
    """What a name stands for, and the fields inside of it. As in Spark, `a.b` is the column b of the table a, if there is one, otherwise
    the field b of the column a."""
    parts = node.parts
    if len(parts) == 1:
        return scope.resolve_column(source, node), []
    try:
        return scope.resolve_column(source, first_parts(node, 2)), [part.name for part in parts[2:]]
    except QueryError as error:
        if error.what != AMBIGUOUS:
            with suppress(QueryError):
                return scope.resolve_column(source, first_parts(node, 1)), [part.name for part in parts[1:]]
        raise error


def first_parts(node: exp.Column, number: int) -> exp.Column:
    """The first one or two parts of a name, at their places in the text."""
    parts = [part.copy() for part in node.parts[:number]]
    return exp.Column(**dict(zip(("this", "table"), reversed(parts), strict=False)))


def _with_fields(expression: exp.Expression, fields: list[str]) -> exp.Expression:
    for field in fields:
        expression = exp.Dot(this=expression, expression=exp.to_identifier(field, quoted=True))
    return expression


def _in_joined_rows(expr: Expr, columns: dict[str, Expr]) -> exp.Expression:
    """What a name stands for in SQL over joined rows; adds the columns that it has to `columns`."""
    if isinstance(expr, Call) and is_by_spark(expr):
        sql, *named = expr.args
        assert isinstance(sql, Lit)
        columns.update((joined_name(each), each) for each in named)
        return exp.paren(exp.maybe_parse(str(sql.value), dialect="spark"))
    columns[joined_name(expr)] = expr
    return column_sql(expr)


def _in_stream(stream: Stream, column: str) -> exp.Expression:
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
