"""What a plan costs: two models with the same interface.

`probe` is the paper's: the tuples sent into probes, nothing else, hash layouts only. `full` (default) adds what Spark pays for besides:
sending tuples into stores, memory, and a fixed amount per round; a step that stays on its worker does not pay for the network. Work on a
single worker counts once per worker, because the others wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from clash.model.layout import ALL, ONE, Layout
from clash.plan.options import CostName, LayoutRule


@dataclass(frozen=True, slots=True)
class Weights:
    """Costs per tuple, in units of one tuple sent over the network.

    The ratios follow measurements on Spark: ingest and shuffle ~1.5 µs per tuple and ~50 ms per round and batch, a step that stays on its
    worker ~350 ns (look-up, check, gathering the result), an insert ~800 ns (indexing, writing, and merging a few times). Comparing a
    column with a literal or a window, and taking what passes, is ~40 ns per row.
    """

    send: float = 1.0
    probe: float = 0.25
    insert: float = 0.5
    memory: float = 0.1
    """Per stored tuple and base relation."""
    check: float = 0.03
    """Per row of a weaker join that is checked for a query."""
    round: float = 10_000.0
    """Per round and window, not per tuple."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """The cost of stores, feeds, steps and rounds under one choice of model, workers and layouts."""

    name: CostName
    workers: int
    layouts: LayoutRule
    weights: Weights = Weights()
    unplaced: bool = False
    """Under `full`: whether it is left out where rows are, so that a step costs what it costs at least (`unplaced_bound`)."""

    @property
    def full(self) -> bool:
        return self.name == "full"

    @property
    def free_copies(self) -> bool:
        """Whether a store may be kept under any number of layouts at no cost."""
        return not self.full and self.layouts == "many"

    @property
    def round_cost(self) -> float:
        """The cost of one round; 0 where rounds do not count."""
        return self.weights.round if self.full and self.workers > 1 and not self.unplaced else 0.0

    def candidate_layouts(self, hash_layouts: list[Layout]) -> list[Layout]:
        """The layouts that a store may have, given its candidates for hash partitioning."""
        if not self.full:
            return hash_layouts
        return [*hash_layouts, ONE, ALL] if self.workers > 1 else [ONE]

    def store(self, layout: Layout, rows: float, width: int, mir: bool, load: float = 1.0) -> float:
        """The cost of one copy of a store. `width` is the number of base relations in a row. `load`: what the worker with most rows has
        of them under a hash layout, in multiples of the mean; the others wait for it.

        The rows of a MIR's store are sent along feed arcs, which pay for the network themselves.
        """
        if not self.full:
            return 0.0
        w, n = self.weights, self.workers
        send = 0.0 if mir or n == 1 else w.send
        if layout == ALL:
            return rows * n * (send + w.insert + width * w.memory)
        return rows * (send + (w.insert + width * w.memory) * (n if layout == ONE else load))

    def table(self, layout: Layout, rows: float) -> float:
        """The cost of one copy of a table's store: memory alone, since its rows do not arrive; workers read them from its files."""
        return rows * self.weights.memory * (self.workers if layout in (ALL, ONE) else 1) if self.full else 0.0

    def feed(self, layout: Layout, rows: float, stays: bool) -> float:
        """The cost of sending `rows` of a complete sub-join into the MIR's store; nothing if they stay on their worker."""
        if not self.full or stays:
            return 0.0
        return rows * self.weights.send * (self.workers if layout == ALL else 1)

    def check(self, rows: float) -> float:
        """The cost of finding the results of a query among `rows` of a weaker join."""
        return rows * self.weights.check if self.full else 0.0

    def step(self, layout: Layout, rows: float, key_known: bool, stays: bool, on_every_worker: bool = False, copies: float = 1.0) -> float:
        """The cost of `rows` partial results that probe a store.

        `key_known`: they determine the key that the store is partitioned by, so each goes to one worker instead of all. `stays`: each is on
        that worker already. `on_every_worker`: every worker has all of them. `copies`: the workers that each is sent to, in the mean,
        where the key is known: those with hot keys are sent to all.
        """
        n = self.workers
        if not self.full:
            return rows * (1 if key_known else n)
        w = self.weights
        if on_every_worker:
            return rows * n * w.probe
        send = 0.0 if stays else w.send
        if layout == ONE:
            return rows * (send + w.probe * n)
        if layout == ALL or key_known:
            return rows * copies * (send + w.probe)
        return rows * n * (w.send + w.probe)
