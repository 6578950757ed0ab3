"""What a plan costs: two models over one vocabulary.

`probe` is the paper's: the tuples sent into probes, nothing else, hash layouts only. `full` (default) adds what Spark
pays for besides: sending tuples into stores, memory, and a fixed amount per round; a step that stays on its worker
does not pay for the network. Work on one worker alone counts once per worker, because the others wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clash.model.layout import ALL, ONE, Layout

CostName = Literal["probe", "full"]
LayoutRule = Literal["one", "many"]


@dataclass(frozen=True, slots=True)
class Weights:
    """Per tuple, in units of one tuple sent over the network; `round` per round and window.

    The ratios follow what was measured on Spark: ingest and shuffle ~1.5 µs a tuple and ~50 ms a round and batch, a step that stays
    ~350 ns (look-up, check, gathering the result), an insert ~800 ns (indexing, writing, and merging a few times).
    """

    send: float = 1.0
    probe: float = 0.25
    insert: float = 0.5
    memory: float = 0.1
    round: float = 10_000.0


@dataclass(frozen=True, slots=True)
class CostModel:
    name: CostName
    workers: int
    layouts: LayoutRule
    weights: Weights = Weights()

    @property
    def full(self) -> bool:
        return self.name == "full"

    @property
    def free_copies(self) -> bool:
        """May a store be kept under any number of layouts at no cost?"""
        return not self.full and self.layouts == "many"

    @property
    def round_cost(self) -> float:
        return self.weights.round if self.full and self.workers > 1 else 0.0

    def candidates(self, hashes: list[Layout]) -> list[Layout]:
        """The layouts a store may have, given those by hash."""
        if not self.full:
            return hashes
        return [*hashes, ONE, ALL] if self.workers > 1 else [ONE]

    def store(self, layout: Layout, rows: float, width: int, mir: bool) -> float:
        """Keeping one copy. What feeds a MIR's store is sent along feed arcs, which pay for the network themselves."""
        if not self.full:
            return 0.0
        w, n = self.weights, self.workers
        send = 0.0 if mir or n == 1 else w.send
        if layout == ALL:
            return rows * n * (send + w.insert + width * w.memory)
        return rows * (send + (w.insert + width * w.memory) * (n if layout == ONE else 1))

    def feed(self, layout: Layout, rows: float, stays: bool) -> float:
        """Sending `rows` of a partial result into the MIR's store."""
        if not self.full or stays:
            return 0.0
        return rows * self.weights.send * (self.workers if layout == ALL else 1)

    def step(self, layout: Layout, rows: float, known: bool, stays: bool, everywhere: bool = False) -> float:
        """`rows` partial results probe a store; `known`: do they know the layout's key? `everywhere`: all workers have them."""
        n = self.workers
        if not self.full:
            return rows * (1 if known else n)
        w = self.weights
        if everywhere:
            return rows * n * w.probe
        send = 0.0 if stays else w.send
        if layout == ONE:
            return rows * (send + w.probe * n)
        if layout == ALL or known:
            return rows * (send + w.probe)
        return rows * n * (w.send + w.probe)
