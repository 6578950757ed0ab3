"""What Spark computes of the rows of a query's join before they are published.

A query may use any deterministic expression of Spark over columns of several streams. What our evaluator does not know is SQL over the
joined rows: the join gives the columns that it names, and Spark evaluates it over the rows of each batch.
"""

from __future__ import annotations

from dataclasses import dataclass

from clash.model.computed import computed_name
from clash.model.expressions import Call, Col, Expr, Lit

JOINED = ""  # the stream of a `ComputedColumn` whose expression is one over joined rows
BY_SPARK = "spark"  # the operator of an expression that Spark computes: its SQL as a literal, then what the SQL names


@dataclass(frozen=True, slots=True)
class ProjectedColumn:
    """One column of the result."""

    name: str
    expression: str
    """In Spark's SQL, over columns of the joined rows."""
    type: str


@dataclass(frozen=True, slots=True)
class Projection:
    """The results as Spark computes them of the joined rows."""

    columns: tuple[ProjectedColumn, ...]
    conditions: tuple[str, ...]
    """Which joined rows have a result: those of which all of these are true."""


def joined_name(expr: Expr) -> str:
    """What the column of joined rows is called that has the value of an expression: no two expressions have the same.

    >>> from clash.model.relation import Relation
    >>> joined_name(Col(Relation("R", 1), "a", "int"))
    'R#2.a'
    """
    return str(expr) if isinstance(expr, Col) else computed_name(f"{expr} {expr.type}")


def is_by_spark(expr: Expr) -> bool:
    """Whether Spark computes it."""
    return isinstance(expr, Call) and expr.op == BY_SPARK


def cast_by_spark(expr: Expr, kind: str) -> Expr:
    """An expression that Spark computes, in another type."""
    if expr.type == kind or not isinstance(expr, Call) or not isinstance(expr.args[0], Lit):
        return expr
    return Call(BY_SPARK, (Lit(f"CAST({expr.args[0].value} AS {kind})", "string"), *expr.args[1:]), kind)


def needs_spark(expr: Expr) -> bool:
    """Whether Spark computes it or a part of it."""
    return isinstance(expr, Call) and (expr.op == BY_SPARK or any(map(needs_spark, expr.args)))
