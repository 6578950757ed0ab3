"""Parts of error messages: lists of names, and the proposal of a similar name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, candidates: Iterable[str], otherwise: str) -> str:
    """A hint that proposes the candidate closest to `name`; `otherwise` where none is close."""
    spellings = {candidate.lower(): candidate for candidate in candidates}
    near = difflib.get_close_matches(name.lower(), list(spellings), n=3, cutoff=0.6)
    near.sort(key=lambda candidate: candidate[:1] != name[:1].lower())  # typing errors rarely affect the first letter
    return f"did you mean {spellings[near[0]]}?" if near else otherwise


def listed(names: Iterable[str], limit: int = 12) -> str:
    """The names separated by commas, cut off after `limit` of them.

    >>> listed("abcd", limit=2)
    'a, b, …'
    """
    names = list(names)
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")
