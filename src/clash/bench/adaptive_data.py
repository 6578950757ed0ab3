"""The data of the paper's two adaptive experiments: the linear join R(a), S(a,b), T(b,c), U(c), of which something changes on the way.

Invariant: rows are a function of seed, stream and tick. Times count from the first row; `lead` seconds fill the windows before second 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clash.bench.adaptive_feed import TICK, Columns
from clash.model.statistics import Statistics

WINDOW = 5  # seconds
COLUMNS: Mapping[str, tuple[str, ...]] = {"R": ("a",), "S": ("a", "b"), "T": ("b", "c"), "U": ("c",)}
QUERY = (
    "SELECT R.a AS a, S.b AS b, T.c AS c, R.ts AS r, S.ts AS s, T.ts AS t, U.ts AS u "
    "FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b JOIN U ON T.c = U.c"
)
_FAR = 1 << 40  # keys from here on are of the time after the change
_APART = 1 << 50  # of S and T rows that must not meet
_NEVER = -(1 << 40)  # of S rows that meet no R


@dataclass(frozen=True)
class Timing:
    """Seconds: before 0, until the change, and in all."""

    lead: float = 5.0
    change: float = 15.0
    seconds: float = 30.0

    @property
    def ticks(self) -> int:
        return round((self.lead + self.seconds) / TICK)

    def changed(self, tick: int) -> bool:
        return tick >= round((self.lead + self.change) / TICK)


class _Linear:
    """What the experiments have in common: the linear join, and how long it is fed."""

    timing: Timing

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        return COLUMNS

    @property
    def ticks(self) -> int:
        return self.timing.ticks


@dataclass(frozen=True)
class Selectivity(_Linear):
    """All streams at one rate. Before the change each tuple is part of one result, its partners within a second of it. After it an S
    finds `partners` tuples in R and none in T, and a T as many in U and none in S."""

    rate: int
    partners: int = 100
    seed: int = 1
    timing: Timing = Timing()

    def statistics(self) -> Statistics:
        """Before the change, with a little more for S.b = T.b, as the paper has it: S then asks R first, and T asks U."""
        held = float(self.rate * WINDOW)
        one = {"R.a = S.a": 1 / held, "S.b = T.b": 1.15 / held, "T.c = U.c": 1 / held}
        return Statistics(rates=dict.fromkeys(COLUMNS, held), selectivities=one)

    def rows(self, tick: int) -> Mapping[str, Columns]:
        first, last = round(tick * TICK * self.rate), round((tick + 1) * TICK * self.rate)
        at = np.arange(first, last, dtype=np.int64)
        if not self.timing.changed(tick):
            return {stream: dict.fromkeys(columns, self._shuffled(stream, at)) for stream, columns in COLUMNS.items()}
        few = _FAR + at % max(1, self.rate * WINDOW // self.partners)
        return {"R": {"a": few}, "S": {"a": few, "b": _FAR + at}, "T": {"b": _APART + at, "c": few}, "U": {"c": few}}

    def _shuffled(self, stream: str, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """The keys of a second in an order of the stream's own."""
        keys = np.empty_like(at)
        for second in np.unique(at // self.rate):
            order = np.random.default_rng([self.seed, ord(stream), int(second)]).permutation(self.rate)
            chosen = at // self.rate == second
            keys[chosen] = second * self.rate + order[at[chosen] % self.rate]
        return keys


@dataclass(frozen=True)
class Small(_Linear):
    """R is much faster than the others. Half of S, T and U are of a kind that meets R: an R finds `fan` S, each of which finds a T, but
    few of these a U. The other half meet no R, and before the change each other so often that S ⋈ T ⋈ U is large; after it their T and U
    find no partner, be it an old one."""

    rate: int
    slow: int
    fan: int = 120
    crowd: int = 4  # S and T of the second kind, per T and S
    cell: int = 1  # values of c among them
    rare: int = 100_000  # values of c among the first kind
    seed: int = 1
    timing: Timing = Timing()

    @property
    def half(self) -> int:
        """Tuples of a kind in the window of a slow stream."""
        return self.slow * WINDOW // 2

    def statistics(self) -> Statistics:
        """What the data is before the change."""
        fast, slow, half = self.rate * WINDOW, self.slow * WINDOW, self.half
        st = half + half * self.crowd
        tu = half * half / self.cell + half * half / self.rare
        stu = half * self.crowd * half / self.cell + half * half / self.rare
        rs = rst = fast * self.fan
        return Statistics(
            rates={"R": fast, "S": slow, "T": slow, "U": slow},
            selectivities={"R.a = S.a": rs / fast / slow, "S.b = T.b": st / slow**2, "T.c = U.c": tu / slow**2},
            sizes={
                ("R", "S"): rs, ("S", "T"): st, ("T", "U"): tu, ("R", "S", "T"): rst, ("S", "T", "U"): stu,
                ("R", "S", "T", "U"): rst * half / self.rare,
            },
        )  # fmt: skip

    def rows(self, tick: int) -> Mapping[str, Columns]:
        random = np.random.default_rng([self.seed, tick])
        fast = round((tick + 1) * TICK * self.rate) - round(tick * TICK * self.rate)
        first, last = round(tick * TICK * self.slow), round((tick + 1) * TICK * self.slow)
        at = np.arange(first, last, dtype=np.int64)
        meets = random.permutation(len(at)) < len(at) / 2
        keys = max(1, self.half // self.fan)

        def mixed(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.where(meets, one, other)

        def any_of(values: int) -> NDArray[np.int64]:
            return random.integers(0, values, len(at))

        crowded = _FAR + any_of(max(1, self.half // self.crowd))
        lonely = _APART + at
        celled = _FAR + any_of(self.cell)
        return {
            "R": {"a": random.integers(0, keys, fast)},
            "S": {"a": mixed(any_of(keys), _NEVER - at), "b": mixed(any_of(self.half), crowded)},
            "T": {
                "b": mixed(any_of(self.half), _FAR + any_of(max(1, self.half // self.crowd))),
                "c": mixed(any_of(self.rare), lonely if self.timing.changed(tick) else celled),
            },
            "U": {"c": mixed(any_of(self.rare), -lonely if self.timing.changed(tick) else _FAR + any_of(self.cell))},
        }
