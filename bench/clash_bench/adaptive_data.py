"""The data of the paper's two adaptive experiments: streams of the linear join R(a), S(a,b), T(b,c), U(c), which change at one point.

Invariant: rows are a function of seed, stream and tick. Ticks count from the first row; `lead` seconds fill the windows before second 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clash.model.statistics import Statistics
from clash_bench.adaptive_feed import TICK, Columns

WINDOW = 5  # seconds
COLUMNS: Mapping[str, tuple[str, ...]] = {"R": ("a",), "S": ("a", "b"), "T": ("b", "c"), "U": ("c",)}
QUERY = (
    "SELECT R.a AS a, S.b AS b, T.c AS c, R.ts AS r, S.ts AS s, T.ts AS t, U.ts AS u "
    "FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b JOIN U ON T.c = U.c"
)
# ranges of keys that never match each other
_SECOND_RANGE = 1 << 40  # keys after the change, or of the rows that join no R
_UNMATCHED = 1 << 50  # keys of rows that must find no partner
_NO_R = -(1 << 40)  # keys of S rows that match no R


@dataclass(frozen=True)
class Timing:
    """When an experiment starts, changes and ends, in seconds."""

    lead: float = 5.0
    """Seconds of data before second 0."""
    change: float = 15.0
    """The second in which the data changes."""
    seconds: float = 30.0
    """The length of the experiment, without the lead."""

    @property
    def ticks(self) -> int:
        return round((self.lead + self.seconds) / TICK)

    def changed(self, tick: int) -> bool:
        return tick >= round((self.lead + self.change) / TICK)


class _LinearJoin:
    """What both experiments share: the streams of the linear join, and how long they are fed."""

    timing: Timing

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        return COLUMNS

    @property
    def ticks(self) -> int:
        return self.timing.ticks


@dataclass(frozen=True)
class SelectivityChange(_LinearJoin):
    """Experiment "selectivity": all streams have one rate.

    Before the change each tuple is part of one result, with partners that are due in the same second. After it, an S matches `partners`
    tuples of R and none of T, and a T matches as many of U and none of S.
    """

    rate: int
    """Tuples per second of each stream."""
    partners: int = 100
    seed: int = 1
    timing: Timing = Timing()

    def statistics(self) -> Statistics:
        """The data before the change, but S.b = T.b slightly less selective, as in the paper: S then probes R first, and T probes U."""
        in_window = float(self.rate * WINDOW)
        selectivities = {"R.a = S.a": 1 / in_window, "S.b = T.b": 1.15 / in_window, "T.c = U.c": 1 / in_window}
        return Statistics(rates=dict.fromkeys(COLUMNS, in_window), selectivities=selectivities)

    def rows(self, tick: int) -> Mapping[str, Columns]:
        first, last = round(tick * TICK * self.rate), round((tick + 1) * TICK * self.rate)
        numbers = np.arange(first, last, dtype=np.int64)
        if not self.timing.changed(tick):
            return {stream: dict.fromkeys(columns, self._shuffled(stream, numbers)) for stream, columns in COLUMNS.items()}
        few = _SECOND_RANGE + numbers % max(1, self.rate * WINDOW // self.partners)
        return {"R": {"a": few}, "S": {"a": few, "b": _SECOND_RANGE + numbers}, "T": {"b": _UNMATCHED + numbers, "c": few}, "U": {"c": few}}

    def _shuffled(self, stream: str, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers as keys, permuted within each second differently for every stream."""
        keys = np.empty_like(numbers)
        for second in np.unique(numbers // self.rate):
            order = np.random.default_rng([self.seed, ord(stream), int(second)]).permutation(self.rate)
            of_second = numbers // self.rate == second
            keys[of_second] = second * self.rate + order[numbers[of_second] % self.rate]
        return keys


@dataclass(frozen=True)
class StoreIntroduced(_LinearJoin):
    """Experiment "store": R is much faster than the other streams, and a store for S ⋈ T ⋈ U becomes worthwhile.

    Half of the rows of S, T and U are of a kind that joins R: an R matches `fan` S, each of which matches a T, but few of these match a U.
    The other half joins no R. Before the change its rows match each other so often that S ⋈ T ⋈ U is large; after it, new T and U of that
    half match nothing, not even older rows.
    """

    rate: int
    """Tuples per second of R."""
    slow: int
    """Tuples per second of each other stream."""
    fan: int = 120
    crowd: int = 4
    """Matches of S.b = T.b per row, in the half that joins no R."""
    cell: int = 1
    """Distinct values of c in that half."""
    rare: int = 100_000
    """Distinct values of c in the half that joins R."""
    seed: int = 1
    timing: Timing = Timing()

    @property
    def half(self) -> int:
        """Rows of one of the two kinds in the window of a slow stream."""
        return self.slow * WINDOW // 2

    def statistics(self) -> Statistics:
        """The data before the change."""
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
        numbers = np.arange(first, last, dtype=np.int64)
        joins_r = random.permutation(len(numbers)) < len(numbers) / 2
        keys = max(1, self.half // self.fan)

        def mixed(if_joins_r: NDArray[np.int64], otherwise: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.where(joins_r, if_joins_r, otherwise)

        def any_of(values: int) -> NDArray[np.int64]:
            return random.integers(0, values, len(numbers))

        crowded = _SECOND_RANGE + any_of(max(1, self.half // self.crowd))
        unmatched = _UNMATCHED + numbers
        celled = _SECOND_RANGE + any_of(self.cell)
        return {
            "R": {"a": random.integers(0, keys, fast)},
            "S": {"a": mixed(any_of(keys), _NO_R - numbers), "b": mixed(any_of(self.half), crowded)},
            "T": {
                "b": mixed(any_of(self.half), _SECOND_RANGE + any_of(max(1, self.half // self.crowd))),
                "c": mixed(any_of(self.rare), unmatched if self.timing.changed(tick) else celled),
            },
            "U": {"c": mixed(any_of(self.rare), -unmatched if self.timing.changed(tick) else _SECOND_RANGE + any_of(self.cell))},
        }
