"""A cheap test whether the data has changed: it decides when estimating statistics is worth its cost.

Two things cost nothing to have: the share of an epoch's tuples that each stream has, and the number of results of each sub-join that its
probes gave. Which of the tuples in a result gives it depends on the order in which a batch was read, so the results of all origins are
added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from clash.model.query import SubJoin
from clash.model.relation import Relation
from clash.protocol.reports import ProbeCount
from clash.statistics import ProbeStep

_MIN_COUNT = 30  # tuples or results from which on a share is more than chance
_FACTOR = 1.5  # by which a share must change


class Share(NamedTuple):
    amount: float
    """Tuples or results."""
    tuples: float
    """All tuples of the epoch."""


EpochProfile = Mapping[Hashable, Share]  # by stream or sub-join


def profile_epoch(rows: Counter[str], probes: Mapping[ProbeStep, ProbeCount]) -> EpochProfile:
    """The profile of an epoch. `rows`: its tuples by stream."""
    results: dict[tuple[SubJoin, Relation], float] = {}
    for step, count in probes.items():  # several orders may give the same results
        key = step.bound, step.origin
        results[key] = max(count.matches, results.get(key, 0))
    sums: Counter[Hashable] = Counter(rows)
    for (join, _), matches in results.items():
        sums[join] += matches  # type: ignore[assignment]
    return {what: Share(count, rows.total()) for what, count in sums.items()}


def has_drifted(earlier: Iterable[EpochProfile], now: EpochProfile) -> bool:
    """Whether some share lies outside of all earlier ones, by more than chance explains."""
    profiles = [profile for profile in earlier if profile]
    streams = {what for profile in (*profiles, now) for what in profile if isinstance(what, str)}  # an epoch may have no tuple of one
    return any(
        _is_outside([_share(profile, what) for profile in profiles if what in profile or what in streams], _share(now, what))
        for what in {*now, *streams}
    )


def _share(profile: EpochProfile, what: Hashable) -> Share:
    return profile[what] if what in profile else Share(0, next((share.tuples for share in profile.values()), 0))


def _is_outside(earlier: Sequence[Share], new: Share) -> bool:
    """Many keys meet in waves: what one epoch finds may be twice what the next one does, over and over."""
    shares = [(share.amount / share.tuples, share.tuples) for share in earlier if share.tuples]
    if not shares or not new.tuples:
        return False
    share = new.amount / new.tuples
    low, high = min(shares), max(shares)
    return _is_more(high, (share, new.tuples)) if share > high[0] else _is_more((share, new.tuples), low)


def _is_more(less: tuple[float, float], more: tuple[float, float]) -> bool:
    expected = more[0] * min(less[1], more[1])  # how many the larger share makes of the smaller number of tuples
    return expected >= _MIN_COUNT and more[0] > _FACTOR * less[0]
