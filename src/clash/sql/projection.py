"""A query's outputs and conditions, split into what its join gives and what Spark computes of the joined rows."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from clash.model.coercion import VOID
from clash.model.expressions import Call, Expr, Lit
from clash.model.projection import ProjectedColumn, Projection, is_by_spark, joined_name
from clash.model.query import Output

Outputs = tuple[Output, ...]


def project(outputs: Outputs, conditions: Iterable[Expr]) -> tuple[Outputs, Projection | None]:
    """The outputs of the join, and what Spark computes of them; without a projection where it computes nothing."""
    conditions = tuple(conditions)
    if not conditions and not any(is_by_spark(output.expression) for output in outputs):
        return outputs, None
    joined: dict[str, Expr] = {}
    columns = tuple(ProjectedColumn(output.name, _sql(output.expression, joined), output.expression.type) for output in outputs)
    texts = tuple(dict.fromkeys(_sql(condition, joined) for condition in conditions))
    return tuple(Output(name, expression) for name, expression in joined.items()), Projection(columns, texts)


def _sql(expr: Expr, joined: dict[str, Expr]) -> str:
    """An expression in SQL over joined rows; adds the columns that it names to `joined`."""
    if isinstance(expr, Call) and is_by_spark(expr):
        sql, *named = expr.args
        joined.update((joined_name(each), each) for each in named)
        if isinstance(sql, Lit):
            return str(sql.value)
    if isinstance(expr, Lit) and expr.value is None:  # a file has no column without a type
        return "NULL" if expr.type == VOID else f"CAST(NULL AS {expr.type})"
    joined[joined_name(expr)] = expr
    return column_sql(expr).sql(dialect="spark")


def column_sql(expr: Expr) -> exp.Expression:
    """The column of joined rows that has the value of an expression."""
    return exp.column(exp.to_identifier(joined_name(expr), quoted=True))
