"""How numbers, lists, predicates and steps are written, the same in every format.

No number shows more digits than a reader can use, and none shows the noise of floating point.
"""

from __future__ import annotations

from collections.abc import Sequence

from clash.model.durations import show_duration
from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.query import Query
from clash.planner.orders import ProbeOrder, Step, StoreKey

CROSSES, STAYS, BROADCAST = "»", "›", "⇉"
_INFIX = {"=", "<>", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "and", "or", "like"}
_POSTFIX = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_TURNED = {"<": ">", "<=": ">="}
_COMPARE = {"=", "<>", *_TURNED}


def number(value: float) -> str:
    """`1,234`, `33.3`, `0.05`: whole from 1,000 on, three digits below."""
    if value < 0:
        return "-" + number(-value)
    value = float(f"{value:.10g}")  # sums of floats differ in their last digits from run to run
    if value >= 1e15:
        return f"{value:.3g}".replace("e+", "e")
    if value >= 999.5 or abs(value - round(value)) <= 1e-6 * max(1.0, value):
        return f"{round(value):,}"
    if value < 0.0005:
        return "0.0"
    digits = 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """`12 %`, `2.4 %`, `0.03 %`; what is not nothing is not called nothing."""
    value = 100 * share
    if value >= 10 or value == 0:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 0.95 else f"{value:.2f} %" if value >= 0.005 else "< 0.01 %"


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word[:-1] + 'ies' if word.endswith('y') else word + 's'}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """`q1, q2 and q3`; of many the first ones and how many more there are."""
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1:,} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def store_name(key: StoreKey) -> str:
    """Without its owner, which the heading says."""
    return str(key.stream) if key.join is None else f"({key.join})"


def step_name(step: Step) -> str:
    return f"{store_name(step.store)}[{step.layout}]"


def arrow(step: Step, workers: int) -> str:
    """With one worker there is no network to cross."""
    if workers == 1:
        return CROSSES
    return BROADCAST if step.places > 1 else STAYS if step.stays else CROSSES


def path(order: ProbeOrder, workers: int, steps: int | None = None) -> str:
    """`R » S[b] › T[c]`, or the first steps of it."""
    shown = order.steps if steps is None else order.steps[:steps]
    return " ".join([str(order.origin), *(f"{arrow(step, workers)} {step_name(step)}" for step in shown)])


def predicate(expression: Expr) -> str:
    """As in SQL; a literal stands on the right of a comparison."""
    if isinstance(expression, Col):
        return str(expression)
    if isinstance(expression, Lit):
        return _literal(expression)
    args, op = expression.args, expression.op
    if op in _POSTFIX:
        return f"{_operand(args[0])} {_POSTFIX[op]}"
    if op == "in":
        return f"{_operand(args[0])} IN ({', '.join(map(predicate, args[1:]))})"
    if op == "cast":
        return f"CAST({predicate(args[0])} AS {expression.type})"
    if op in _COMPARE and isinstance(args[0], Lit):
        op, args = _TURNED.get(op, op), args[::-1]
    if op in _INFIX and len(args) >= 2:
        return f" {op.upper()} ".join(map(_operand, args))
    if op == "not":
        return f"NOT {_operand(args[0])}"
    return f"{op}({', '.join(map(predicate, args))})"


def keys(query: Query) -> list[str]:
    """`R.a = S.a`, one per equivalence class."""
    return sorted(" = ".join(map(str, sorted(equal))) for equal in query.join.classes)


def conditions(query: Query) -> list[str]:
    return sorted(predicate(e) for e in (*query.join.filters, *query.join.residuals))


def windows(query: Query) -> list[str]:
    """Nothing where nothing is bounded: `optimize` takes every rate as tuples in the window."""
    found = sorted(query.join.windows, key=lambda w: w[0])
    return [f"{r} {show_duration(w)}" for r, w in found] if any(w is not None for _, w in found) else []


def _operand(expression: Expr) -> str:
    text = predicate(expression)
    return f"({text})" if isinstance(expression, Call) and (expression.op in _INFIX or expression.op in _POSTFIX) else text


def _literal(literal: Lit) -> str:
    if literal.type == "interval" and isinstance(literal.value, int):
        sign = "-" if literal.value < 0 else ""
        return f"{sign}INTERVAL {show_duration(abs(literal.value)).upper()}"
    if isinstance(literal.value, str):
        quoted = "'" + literal.value.replace("'", "''") + "'"
        return f"{literal.type.upper()} {quoted}" if literal.type in ("date", "timestamp") else quoted
    return str(literal).upper() if isinstance(literal.value, bool) else str(literal)
