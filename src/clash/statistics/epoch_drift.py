"""Whether the newest epoch is like the window, per pair of compared columns.

ρ is the number of partners that the newest tuples of one of the two streams find in the other's window, scaled to all tuples of the
window, over the number that the window's tuples find. The larger of both sides counts, as often only the later ones (the shipment, not the
order) find a partner. In a steady stream ρ is constant, though not necessarily 1; its mean over earlier epochs is the reference. A ρ far
from its mean, by more than chance explains, is a change, and estimated sizes follow it at once although the window still has old tuples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from clash.plan.collection_spec import CollectionSpec, Column
from clash.statistics.key_pairs import PairSize, pair_size
from clash.statistics.stream_view import StreamView

MEAN_EPOCHS = 20  # over which the mean is taken
MIN_EPOCHS = 2  # before a change can be recognised
MIN_CHANGE = 1.5  # a change by a smaller factor is none
MAX_CHANGE = 100.0  # a larger factor counts as this one
STANDARD_ERRORS = 3.0  # that a change must exceed


@dataclass(frozen=True)
class Trend:
    """The course of ρ for one pair of columns."""

    mean: float = 0.0
    """Of ln ρ."""
    epochs: int = 0
    """Over which the mean is taken."""
    factor: float = 1.0
    """By which the newest epoch changes the size of the join; 1 if it is no change."""


@dataclass
class Drift:
    """Trends by pair of compared columns, the smaller one first."""

    trends: dict[tuple[Column, Column], Trend] = field(default_factory=dict)

    def add(
        self,
        views: Mapping[str, StreamView],
        newest: Mapping[str, StreamView],
        links: Iterable[tuple[Column, Column]],
        spec: CollectionSpec,
    ) -> None:
        """One more epoch: what the windows have, and the newest epoch scaled to as many tuples."""
        trends = {}
        for link in links:
            before = self.trends.get(link, Trend())
            ratio = _log_ratio(views, newest, link, spec)
            trends[link] = Trend(before.mean, before.epochs) if ratio is None else _next_trend(before, *ratio)
        self.trends = trends

    def factor(self, left: Column, right: Column) -> float:
        trend = self.trends.get((min(left, right), max(left, right)))
        return 1.0 if trend is None else trend.factor


def _log_ratio(
    views: Mapping[str, StreamView], newest: Mapping[str, StreamView], link: tuple[Column, Column], spec: CollectionSpec
) -> tuple[float, float] | None:
    """ln ρ and its standard error; None where the counts do not suffice."""
    (left, left_column), (right, right_column) = link
    keys = spec.key(left, left_column), spec.key(right, right_column)
    if keys[0] is None or keys[1] is None or left not in views or right not in views or left == right:
        return None
    left_key, right_key = str(keys[0]), str(keys[1])
    whole = pair_size(views[left], left_key, views[right], right_key)
    sides = [
        pair_size(newest[left], left_key, views[right], right_key),
        pair_size(views[left], left_key, newest[right], right_key),
    ]
    if whole is None or whole.rows <= 0 or whole.error > 1 / STANDARD_ERRORS or any(side is None for side in sides):
        return None
    largest = max(side.rows for side in sides if side is not None)
    deviation = max(_deviation(side) for side in sides if side is not None)
    rows = max(largest, deviation / STANDARD_ERRORS, whole.rows / MAX_CHANGE)
    return math.log(rows / whole.rows), deviation / rows + whole.error


def _deviation(size: PairSize) -> float:
    return size.rows * size.error if math.isfinite(size.error) else 0.0


def _next_trend(before: Trend, log_ratio: float, error: float) -> Trend:
    change = log_ratio - before.mean
    factor = 1.0
    if before.epochs >= MIN_EPOCHS and abs(change) > max(math.log(MIN_CHANGE), STANDARD_ERRORS * error):
        factor = min(MAX_CHANGE, max(1 / MAX_CHANGE, math.exp(change)))
    epochs = min(MEAN_EPOCHS, before.epochs + 1)
    # a jump moves the mean only a little, or it would become the reference long before the window is full of it
    step = change if factor == 1.0 else math.copysign(math.log(MIN_CHANGE), change)
    return Trend(before.mean + step / epochs, epochs, factor)
