"""Is the newest epoch like the window? Per pair of compared columns.

ρ is what the newest tuples of one of the two streams find in the other's window, scaled to all of them, over what the window's tuples
find: the larger of both sides, as often only the later ones (the shipment, not the order) find a partner. ρ is constant in a steady stream,
whatever it is; its mean over earlier epochs is the measure. A ρ far from its mean, beyond what chance does, is a change, and sizes follow
it at once, although the window still holds what was before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from clash.statistics.key_pairs import Size, pair
from clash.statistics.stream_view import View
from clash.statistics.collection_spec import Column, Wanted

MEMORY = 20  # epochs over which the mean is taken
FIRST = 2  # epochs before any change can be told
LEAST = 1.5  # a change by less is none
MOST = 100.0  # and none counts for more
SURE = 3.0  # standard errors


@dataclass(frozen=True)
class Trend:
    """The mean of ln ρ, over so many epochs, and the factor that the newest one means."""

    mean: float = 0.0
    epochs: int = 0
    factor: float = 1.0


@dataclass
class Drift:
    trends: dict[tuple[Column, Column], Trend] = field(default_factory=dict)

    def add(self, views: Mapping[str, View], newest: Mapping[str, View], links: Iterable[tuple[Column, Column]], wanted: Wanted) -> None:
        found = {}
        for link in links:
            before = self.trends.get(link, Trend())
            ratio = _ratio(views, newest, link, wanted)
            found[link] = Trend(before.mean, before.epochs) if ratio is None else _next(before, *ratio)
        self.trends = found

    def factor(self, left: Column, right: Column) -> float:
        trend = self.trends.get((min(left, right), max(left, right)))
        return 1.0 if trend is None else trend.factor

    def to_json(self) -> list[Any]:
        return [[*left, *right, trend.mean, trend.epochs, trend.factor] for (left, right), trend in self.trends.items()]

    @staticmethod
    def from_json(data: list[Any]) -> Drift:
        return Drift({((a, b), (c, d)): Trend(mean, epochs, factor) for a, b, c, d, mean, epochs, factor in data})


def _ratio(
    views: Mapping[str, View], newest: Mapping[str, View], link: tuple[Column, Column], wanted: Wanted
) -> tuple[float, float] | None:
    """ln ρ and its error; None where nothing can be said."""
    (left, a), (right, b) = link
    keys = wanted.key(left, a), wanted.key(right, b)
    if keys[0] is None or keys[1] is None or left not in views or right not in views or left == right:
        return None
    one, other = str(keys[0]), str(keys[1])
    whole = pair(views[left], one, views[right], other)
    sides = [pair(newest[left], one, views[right], other), pair(views[left], one, newest[right], other)]
    if whole is None or whole.rows <= 0 or whole.error > 1 / SURE or any(side is None for side in sides):
        return None
    best = max((side for side in sides if side is not None), key=lambda side: side.rows)
    deviation = max(_deviation(side) for side in sides if side is not None)
    floor = max(best.rows, deviation / SURE, whole.rows / MOST)
    return math.log(floor / whole.rows), deviation / floor + whole.error


def _deviation(size: Size) -> float:
    return size.rows * size.error if math.isfinite(size.error) else 0.0


def _next(before: Trend, value: float, error: float) -> Trend:
    change = value - before.mean
    factor = 1.0
    if before.epochs >= FIRST and abs(change) > max(math.log(LEAST), SURE * error):
        factor = min(MOST, max(1 / MOST, math.exp(change)))
    epochs = min(MEMORY, before.epochs + 1)
    # a jump moves the mean only a little, or it would soon be what is usual, long before the window is full of it
    usual = change if factor == 1.0 else math.copysign(math.log(LEAST), change)
    return Trend(before.mean + usual / epochs, epochs, factor)
