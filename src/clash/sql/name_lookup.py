"""Looking names up as Spark does: exactly first, then without regard to case; and the nearest name for an error."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def look_up(name: str, known: Iterable[str]) -> str | None:
    """The declared spelling of `name`; None if there is none, or only several that differ in case."""
    known = list(known)
    if name in known:
        return name
    same = [k for k in known if k.lower() == name.lower()]
    return same[0] if len(same) == 1 else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    spelled = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), list(spelled), n=3, cutoff=0.6)
    near.sort(key=lambda k: k[:1] != name[:1].lower())  # people rarely miss the first letter
    return f"did you mean {spelled[near[0]]}?" if near else otherwise


def listed(names: Iterable[str], most: int = 12) -> str:
    names = list(names)
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
