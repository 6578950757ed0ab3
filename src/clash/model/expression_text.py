"""Expressions as SQL text, for plans and error messages."""

from __future__ import annotations

from clash.model.durations import show_duration
from clash.model.expressions import Call, Col, Expr, Lit

_INFIX = {"=", "<>", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "and", "or", "like"}
_POSTFIX = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_MIRRORED = {"<": ">", "<=": ">="}  # the normal form has no `>` and `>=`
_COMPARE = {"=", "<>", *_MIRRORED}


def expression_text(expression: Expr) -> str:
    """The expression in SQL syntax. A comparison with a literal has the literal on its right, as people write it.

    >>> expression_text(Call("<", (Lit(5, "int"), Lit(7, "bigint")), "boolean"))
    '7 > 5'
    """
    if isinstance(expression, Col):
        return str(expression)
    if isinstance(expression, Lit):
        return _literal(expression)
    args, op = expression.args, expression.op
    if op in _POSTFIX:
        return f"{_operand(args[0])} {_POSTFIX[op]}"
    if op == "in":
        return f"{_operand(args[0])} IN ({', '.join(map(expression_text, args[1:]))})"
    if op == "field" and isinstance(args[1], Lit):
        return f"{_operand(args[0])}.{args[1].value}"
    if op == "cast":
        return f"CAST({expression_text(args[0])} AS {expression.type})"
    if op in _COMPARE and isinstance(args[0], Lit):
        op, args = _MIRRORED.get(op, op), args[::-1]
    if op in _INFIX and len(args) >= 2:
        return f" {op.upper()} ".join(map(_operand, args))
    if op == "not":
        return f"NOT {_operand(args[0])}"
    return f"{op}({', '.join(map(expression_text, args))})"


def _operand(expression: Expr) -> str:
    """The text of an operand, in parentheses if it is itself an operator."""
    text = expression_text(expression)
    return f"({text})" if isinstance(expression, Call) and (expression.op in _INFIX or expression.op in _POSTFIX) else text


def _literal(literal: Lit) -> str:
    if literal.type == "interval" and isinstance(literal.value, int):
        sign = "-" if literal.value < 0 else ""
        return f"{sign}INTERVAL {show_duration(abs(literal.value)).upper()}"
    if isinstance(literal.value, str):
        quoted = "'" + literal.value.replace("'", "''") + "'"
        return f"{literal.type.upper()} {quoted}" if literal.type in ("date", "timestamp") else quoted
    return str(literal).upper() if isinstance(literal.value, bool) else str(literal)
