"""Name lookup as in Spark: an exact match first, then a match that ignores case."""

from __future__ import annotations

from collections.abc import Iterable


def look_up(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` refers to; None where there is none, or where several differ only in case.

    >>> look_up("r", ["R", "S"]), look_up("a", ["a", "A"]), look_up("b", ["B", "b "])
    ('R', 'a', 'B')
    """
    candidates = list(candidates)
    if name in candidates:
        return name
    matches = [candidate for candidate in candidates if candidate.lower() == name.lower()]
    return matches[0] if len(matches) == 1 else None
