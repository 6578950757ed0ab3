"""Parts of error messages: lists of names, and the proposal of a similar name."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 200  # characters of a name for which others are compared with it


def did_you_mean(name: str, candidates: Iterable[str], otherwise: str) -> str:
    """A hint that proposes the candidate of which `name` is plausibly a misspelling; `otherwise` where there is none.

    The candidates are names of the kind that is expected: a column is never proposed for a function. A proposal differs in one character
    per three, two at most; two swapped characters count as one.

    >>> did_you_mean("nmae", ["name", "game"], "columns are name, game"), did_you_mean("LEFT", ["LEAST"], "none")
    ('did you mean name?', 'none')
    """
    limit = min(2, len(name) // 3)
    found = [(_edits(name.lower(), candidate.lower(), limit), at, candidate) for at, candidate in enumerate(candidates)]
    near = [each for each in found if name and each[0] <= limit and (len(name) > 3 or each[2][:1].lower() == name[:1].lower())]
    return f"did you mean {min(near)[2]}?" if near else otherwise


def _edits(a: str, b: str, limit: int) -> int:
    """The number of inserted, removed, replaced or swapped characters between two names; more than `limit` is any larger number."""
    if abs(len(a) - len(b)) > limit or len(a) > _LONGEST:
        return limit + 1
    before, previous = list(range(len(b) + 1)), list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        row = [i]
        for j, y in enumerate(b, start=1):
            edits = min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                edits = min(edits, before[j - 2] + 1)
            row.append(edits)
        before, previous = previous, row
    return previous[-1]


def listed(names: Iterable[str], limit: int = 12) -> str:
    """The names separated by commas, cut off after `limit` of them.

    >>> listed("abcd", limit=2)
    'a, b, …'
    """
    names = list(names)
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")
