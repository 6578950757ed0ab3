"""How numbers, lists, predicates and steps are written, the same in every format.

Numbers show no more digits than a reader can use, and no floating-point noise.
"""

from __future__ import annotations

from collections.abc import Sequence

from clash.model.durations import show_duration
from clash.model.expression_text import expression_text
from clash.model.query import Query, SubJoin
from clash.plan.logical import ProbeOrder, Step, StoreKey

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
CROSSES, STAYS, BROADCAST = "»", "›", "⇉"


def number(value: float) -> str:
    """`1,234`, `33.3`, `0.05`: whole from 1,000 on, three digits below.

    >>> number(1234.56), number(33.3333), number(0.0125)
    ('1,235', '33.3', '0.013')
    """
    if value < 0:
        return "-" + number(-value)
    value = float(f"{value:.10g}")  # the last digits of a sum depend on the order of its terms, which varies
    if value >= 1e15:
        return f"{value:.3g}".replace("e+", "e")
    if value >= 999.5 or abs(value - round(value)) <= 1e-6 * max(1.0, value):
        return f"{round(value):,}"
    if value < 0.0005:
        return "0.0"
    digits = 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """`12 %`, `2.4 %`, `0.03 %`; only zero is written as `0 %`."""
    value = 100 * share
    if value >= 10 or value == 0:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 0.95 else f"{value:.2f} %" if value >= 0.005 else "< 0.01 %"


def bytes_text(number: float) -> str:
    """
    >>> bytes_text(999), bytes_text(12_345_678)
    ('999 B', '12.3 MB')
    """
    unit = 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.1f} {_UNITS[unit]}" if unit else f"{number:.0f} B"


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word[:-1] + 'ies' if word.endswith('y') else word + 's'}"


def join_names(names: Sequence[str], limit: int = 4) -> str:
    """`q1, q2 and q3`; beyond `limit` names the first ones, and how many more there are."""
    if len(names) > limit:
        return f"{', '.join(names[: limit - 1])} and {len(names) - limit + 1:,} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def store_name(key: StoreKey) -> str:
    """The store without its owner, which the heading names."""
    return str(key.stream) if key.join is None else f"({key.join})"


def step_name(step: Step) -> str:
    return f"{store_name(step.store)}[{step.layout}]"


def arrow(step: Step, workers: int) -> str:
    """The sign for how tuples reach a step; with one worker there is no network to cross, and all steps get the same sign."""
    if workers == 1:
        return CROSSES
    return BROADCAST if step.places > 1 else STAYS if step.stays else CROSSES


def path(order: ProbeOrder, workers: int, steps: int | None = None) -> str:
    """`R » S[b] › T[c]`, or its first `steps` steps."""
    shown = order.steps if steps is None else order.steps[:steps]
    return " ".join([str(order.origin), *(f"{arrow(step, workers)} {step_name(step)}" for step in shown)])


def keys(query: Query) -> list[str]:
    """`R.a = S.a`, one per equivalence class."""
    return sorted(" = ".join(map(str, sorted(attributes))) for attributes in query.join.classes)


def conditions(query: Query) -> list[str]:
    """Filters and residual predicates."""
    return sorted(expression_text(e) for e in (*query.join.filters, *query.join.residuals))


def windows(query: Query) -> list[str]:
    """`R 5 seconds`, one per relation; empty where no window is bounded."""
    by_relation = sorted(query.join.windows, key=lambda entry: entry[0])
    bounded = any(window is not None for _, window in by_relation)
    return [f"{relation} {show_duration(window)}" for relation, window in by_relation] if bounded else []


def refinement(query: Query, hull: SubJoin) -> list[str]:
    """What is checked of the rows of a weaker join to find the results of a query."""
    conditions = sorted(expression_text(expr) for expr in query.beyond(hull))
    return [*conditions, *(f"{r} within {show_duration(w)}" for r, w in sorted(query.shorter_windows(hull).items()))]
