"""Filters of streams, taken from Spark's plans: as expressions that tasks evaluate, and as columns of Spark's where Spark reads the rows.

Invariant: only a condition that means here what it means in Spark is converted, and none that can raise an error. Any other raises
`UnconvertedError`, and Spark reads the stream.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.relation import Relation
from clash.spark.column_packing import quoted

_BOOLEAN = "boolean"
_WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")  # from narrow to wide
_TYPES = frozenset({_BOOLEAN, *_WHOLE_NUMBERS, "float", "double", "string"})
_COMPARISONS = {
    "EqualTo": "=", "EqualNullSafe": "<=>", "LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">", "GreaterThanOrEqual": ">=",
    "In": "in",
}  # fmt: skip
_CONNECTIVES = {"And": "and", "Or": "or", "Not": "not"}
_NULL_TESTS = {"IsNull": "isnull", "IsNotNull": "isnotnull"}
_SPARK_COLUMNS: dict[str, Callable[..., Any]] = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "<=>": lambda left, right: left.eqNullSafe(right),
    "in": lambda value, *among: value.isin(*among),
    "and": operator.and_, "or": operator.or_, "not": operator.invert,
    "isnull": lambda value: value.isNull(), "isnotnull": lambda value: value.isNotNull(),
}  # fmt: skip


class UnconvertedError(Exception):
    """A condition that is left to Spark."""


def to_expression(condition: Any, columns: Mapping[int, str], relation: Relation) -> Expr:
    """A condition of Catalyst's over the columns of `relation`, which are given by their expression ids."""
    kind, name = str(condition.dataType().simpleString()), str(condition.getClass().getSimpleName())
    if kind not in _TYPES:
        raise UnconvertedError(kind)
    if condition.foldable() and _has_only_literals(condition):
        return _literal(condition.eval(None), kind)
    if name == "AttributeReference":
        return Col(relation, columns[condition.exprId().id()], kind)
    children = condition.children()
    args = tuple(to_expression(children.apply(at), columns, relation) for at in range(children.size()))
    types = {arg.type for arg in args}
    if name == "Cast" and _is_widening(args[0].type, kind):
        return Call("cast", args, kind)
    if (name in _COMPARISONS and len(types) == 1) or name in _NULL_TESTS or (name in _CONNECTIVES and types == {_BOOLEAN}):
        return Call({**_COMPARISONS, **_NULL_TESTS, **_CONNECTIVES}[name], args, _BOOLEAN)
    raise UnconvertedError(name)


def _has_only_literals(expression: Any) -> bool:
    """Whether it has one value for ever. The current time, or the current user, is foldable for one batch."""
    leaves = expression.collectLeaves()
    return all(leaves.apply(at).getClass().getSimpleName() == "Literal" for at in range(leaves.size()))


def _literal(value: Any, kind: str) -> Lit:
    if value is not None and kind == "string":
        return Lit(str(value.toString()), kind)
    if isinstance(value, float) and not math.isfinite(value):
        raise UnconvertedError(str(value))
    return Lit(value, kind)


def _is_widening(source: str, target: str) -> bool:
    return source in _WHOLE_NUMBERS and target in _WHOLE_NUMBERS and _WHOLE_NUMBERS.index(source) <= _WHOLE_NUMBERS.index(target)


def to_spark_column(expression: Expr) -> Any:
    """The same condition as a column of Spark's, over columns of these names."""
    from pyspark.sql import functions as F  # noqa: N812

    if isinstance(expression, Col):
        return F.col(quoted(expression.column))
    if isinstance(expression, Lit):
        return F.lit(expression.value).cast(expression.type)
    args = [to_spark_column(arg) for arg in expression.args]
    if expression.op == "cast":
        return args[0].cast(expression.type)
    if expression.op in ("and", "or"):
        return reduce(_SPARK_COLUMNS[expression.op], args)
    return _SPARK_COLUMNS[expression.op](*args)
