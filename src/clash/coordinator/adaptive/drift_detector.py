"""A cheap sign that the data has moved: enough to know when a real look at it is worth its price.

Two things cost nothing to have: which share of an epoch's tuples each stream has, and how many results of each sub-join its probes found.
Who finds a result, of those that are in it, is up to the order in which a batch was read, so the finds of all origins are added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from clash.model.query import SubJoin
from clash.model.relation import Relation
from clash.statistics import Probed

_LEAST = 30  # tuples or results by which a number means something
_FACTOR = 1.5  # by which it must change

Signs = Mapping[Hashable, tuple[float, float]]  # what → (count, of so many tuples)


def signs(rows: Counter[str], matches: Mapping[Probed, tuple[int, int]]) -> Signs:
    """Of an epoch."""
    found: dict[tuple[SubJoin, Relation], int] = {}
    for probed, (_, results) in matches.items():  # several orders may find the same
        key = probed.bound, probed.origin
        found[key] = max(results, found.get(key, 0))
    sums: Counter[Hashable] = Counter(rows)
    for (join, _), results in found.items():
        sums[join] += results
    return {what: (count, rows.total()) for what, count in sums.items()}


def stirred(seen: Iterable[Signs], now: Signs) -> bool:
    """Does something lie outside of all that was seen, by more than chance would explain?"""
    known = [signs for signs in seen if signs]
    streams = {what for signs in (*known, now) for what in signs if isinstance(what, str)}  # of which an epoch may have no tuple
    return any(
        _moved([_of(signs, what) for signs in known if what in signs or what in streams], _of(now, what)) for what in {*now, *streams}
    )


def _of(signs: Signs, what: Hashable) -> tuple[float, float]:
    return signs[what] if what in signs else (0, next((total for _, total in signs.values()), 0))


def _moved(seen: Sequence[tuple[float, float]], new: tuple[float, float]) -> bool:
    """Most keys meet in waves: what one epoch finds may be twice what the next does, over and over."""
    shares = [(count / total, total) for count, total in seen if total]
    if not shares or not new[1]:
        return False
    share = new[0] / new[1]
    low, high = min(shares), max(shares)
    return _apart(high, (share, new[1])) if share > high[0] else _apart((share, new[1]), low)


def _apart(less: tuple[float, float], more: tuple[float, float]) -> bool:
    expected = more[0] * min(less[1], more[1])  # how many the larger share makes of the smaller number
    return expected >= _LEAST and more[0] > _FACTOR * less[0]
