"""The states of a batch, and the transitions between them.

    IDLE ──▶ DECIDED ──▶ RUNNING ──▶ COMMITTED ──▶ PUBLISHED
               ▲ ▲          │            │             │
               │ └─ failed ─┘            │             │
               └──── the next batch ─────┴─────────────┘

A batch that failed in a process that continues may also run again at once (RUNNING to RUNNING), and a published one be published again.

A batch is DECIDED when what it runs under is on disk, RUNNING when its tasks may have started, COMMITTED when its manifest is on disk, and
PUBLISHED when its result files are in their place. A start finds a checkpoint IDLE (no batch yet), DECIDED (a batch was begun and not
committed) or COMMITTED (perhaps published already: publishing again does no harm).
"""

from __future__ import annotations

from enum import Enum


class BatchState(Enum):
    IDLE = "idle"
    DECIDED = "decided"
    RUNNING = "running"
    COMMITTED = "committed"
    PUBLISHED = "published"


ALLOWED: dict[BatchState, frozenset[BatchState]] = {
    BatchState.IDLE: frozenset({BatchState.DECIDED}),
    BatchState.DECIDED: frozenset({BatchState.RUNNING}),
    BatchState.RUNNING: frozenset({BatchState.RUNNING, BatchState.DECIDED, BatchState.COMMITTED}),  # a failed attempt is run again
    BatchState.COMMITTED: frozenset({BatchState.PUBLISHED, BatchState.DECIDED}),
    BatchState.PUBLISHED: frozenset({BatchState.PUBLISHED, BatchState.DECIDED}),
}


class BatchProgress:
    """Where the current batch is. Every move is checked against `ALLOWED`."""

    def __init__(self, state: BatchState, batch: int) -> None:
        self.state, self.batch = state, batch

    def move(self, state: BatchState, batch: int) -> None:
        self.check(state, batch)
        self.state, self.batch = state, batch

    def check(self, state: BatchState, batch: int) -> None:
        """Raises an AssertionError unless the move is allowed."""
        if state not in ALLOWED[self.state]:
            raise AssertionError(f"batch {self.batch} is {self.state.value} and cannot become {state.value}")
        begins = state is BatchState.DECIDED and self.state in (BatchState.IDLE, BatchState.COMMITTED, BatchState.PUBLISHED)
        if batch != self.batch + begins:
            raise AssertionError(f"batch {batch} cannot be {state.value}: batch {self.batch} is {self.state.value}")
