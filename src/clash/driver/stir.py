"""A cheap sign that the data has moved: enough to know when a real look at it is worth its price.

Two things cost nothing to have: which share of an epoch's tuples each stream has, and how many results of each sub-join its probes found.
Who finds a result, of those that are in it, is up to the order in which a batch was read, so the finds of all origins are added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

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


def stirred(before: Signs, now: Signs) -> bool:
    """Has something that both know changed by more than chance would explain?"""
    return any(_moved(before[what], count) for what, count in now.items() if what in before)


def _moved(old: tuple[float, float], new: tuple[float, float]) -> bool:
    if not old[1] or not new[1]:
        return False
    was, is_ = old[0] / old[1], new[0] / new[1]
    expected = max(was, is_) * min(old[1], new[1])  # how many the larger share makes of the smaller number
    return expected >= _LEAST and max(was, is_) > _FACTOR * min(was, is_)
