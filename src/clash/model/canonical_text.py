"""One text for equal expressions and for equal sub-joins, the same in every process: to sort by, to compare by, and to derive names
from."""

from __future__ import annotations

from clash.codec import Codec
from clash.model.expressions import Expr
from clash.model.query import SubJoin

_EXPRESSION: Codec[Expr] = Codec(Expr, compact=True)
_SUB_JOIN: Codec[SubJoin] = Codec(SubJoin, compact=True)


def expression_key(expression: Expr) -> str:
    return _EXPRESSION.dumps(expression)


def sub_join_key(join: SubJoin) -> str:
    return _SUB_JOIN.dumps(join)
