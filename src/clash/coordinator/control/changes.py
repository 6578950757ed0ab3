"""Changes that are asked for while batches run: at any time, from any thread, in effect at the next epoch border.

Invariant: what cannot be parsed or planned is refused at the call, and the running queries do not notice. Changes take effect in the order
of the calls, all that wait at one border together. A handle names a batch only once that batch is recorded as one under the change, so
it never names one that then runs without it. The plan is the heuristic's and is made at the call: a border does not wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Condition, Lock

from clash.coordinator.control.result_folders import refuse_mixed
from clash.coordinator.checkpoint.generation import Generation
from clash.coordinator.control.job import Asked
from clash.coordinator.control.setup import Setup
from clash.errors import ClashError, OptionError
from clash.model.durations import parse_timeout
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.planner.plan import Plan

_LOG = logging.getLogger("clash")


class Change:
    """A change that was asked for. `batch` is the first one under it, None until there is one."""

    def __init__(self, what: str, query: str | None, told: Condition) -> None:
        self.what, self.query = what, query
        self._told = told
        self._batch: int | None = None
        self._complete: int | None = None
        self._error: ClashError | None = None

    def __repr__(self) -> str:
        return f"<{self.what}: {'waits' if self._batch is None else f'batch {self._batch}'}>"

    @property
    def batch(self) -> int | None:
        return self._batch

    @property
    def complete_from(self) -> int | None:
        """The first batch from which nothing can be missing that came before the query was asked; None until that is known."""
        return self._batch if self.query is None else self._complete

    def wait(self, timeout: float | str | None = None) -> int | None:
        """The first batch under it; None if there was none in `timeout`, seconds or a duration. Without new data there is no batch."""
        seconds = parse_timeout(timeout, "the timeout")
        with self._told:
            self._told.wait_for(lambda: self._batch is not None or self._error is not None, seconds)
            if self._error is not None:
                raise self._error
            return self._batch


@dataclass(frozen=True)
class Pending:
    """What waits for a border: `setup` as it is after all of it; `plan` fits it, unless it could not be made in time."""

    changes: tuple[Change, ...]
    setup: Setup
    plan: Plan | None
    given: bool  # was the plan given by the caller?


class Changes:
    """`statistics`: those to plan with."""

    def __init__(self, generation: Generation, statistics: Callable[[], Statistics | None]) -> None:
        self._statistics = statistics
        self._told = Condition()  # short: a border takes it too
        self._calls = Lock()  # as long as planning takes: one call after the other
        self._running = generation
        self._pending = Pending((), generation.setup, None, False)
        self._closed: ClashError | None = None
        self._incomplete: list[Change] = []

    # ---- asking ------------------------------------------------------------------------------------------------

    def add_query(self, asked: Asked, history: bool = True) -> Change:
        """A new query. With history it also joins tuples that are stored already, without it only those from now on."""
        return self._ask(f"add {asked.name}", lambda setup: self._apart(setup, setup.add_query(asked, _flag(history))), asked.name)

    def replace_query(self, asked: Asked, history: bool = True) -> Change:
        """Another query under the same name, at one border."""
        return self._ask(f"replace {asked.name}", lambda setup: self._apart(setup, setup.replace_query(asked, _flag(history))), asked.name)

    def remove_query(self, name: str) -> Change:
        return self._ask(f"remove {name}", lambda setup: setup.remove_query(name))

    def rescale(self, workers: int) -> Change:
        return self._ask(f"rescale to {workers}", lambda setup: setup.rescale(workers))

    def add_stream(self, stream: Stream, batch: int) -> Change:
        """In effect at once, with the batch that comes next: nothing differs before a query reads it, and that waits for a border."""
        change = self._ask(f"add stream {stream.name}", lambda setup: setup.add_stream(stream))
        change._batch = batch
        return change

    def replan(self, plan: Plan) -> Change:
        """Use this plan, which has to fit the queries and workers of then."""

        def check(setup: Setup) -> Setup:
            if not setup.fits(plan):
                hint = f"it needs {', '.join(setup.names)} on {setup.workers} workers"
                raise OptionError("the plan is for other queries or workers", f"{len(plan.queries)} on {plan.workers}", hint)
            return setup

        return self._ask("use a given plan", check, plan=plan)

    def restart(self, setup: Setup, what: str) -> Change:
        """What a changed program asks for at its start."""
        return self._ask(what, lambda before: self._apart(before, setup))

    @property
    def setup(self) -> Setup:
        """As it will be after all that was asked for."""
        return self._pending.setup

    def _apart(self, before: Setup, after: Setup) -> Setup:
        """Results with other columns stay apart; those of the queries that run may still come."""
        refuse_mixed(after, before, self._running.setup)
        return after

    def _ask(self, what: str, apply: Callable[[Setup], Setup], query: str | None = None, plan: Plan | None = None) -> Change:
        with self._calls:
            with self._told:
                if self._closed is not None:
                    raise self._closed
                before, running = self._pending, self._running
            setup = apply(before.setup)
            change = Change(what, query, self._told)
            trial = plan or self._trial(before, running, setup)
            with self._told:
                if self._pending is not before:  # a border came meanwhile: the same queries, of which some run by now
                    setup = apply(self._pending.setup)
                self._pending = Pending((*self._pending.changes, change), setup, trial, plan is not None)
            return change

    def _trial(self, before: Pending, running: Generation, setup: Setup) -> Plan:
        if before.given and before.plan is not None and setup.fits(before.plan):
            return before.plan
        if setup.planned_as(running.setup):
            return running.plan
        return setup.optimize(self._statistics(), start=before.plan or running.plan)

    # ---- borders -----------------------------------------------------------------------------------------------

    def peek(self) -> Pending:
        """What a border finds; it stays pending until the batch is recorded."""
        with self._told:
            return self._pending

    def done(self, taken: Pending | None, generation: Generation, batch: int) -> None:
        """The batch is recorded, under all that was taken."""
        with self._told:
            self._running = generation
            settled = () if taken is None else taken.changes
            left = tuple(change for change in self._pending.changes if change not in settled)
            if not left:
                self._pending = Pending((), generation.setup, None, False)
            elif taken is not None:
                begun = {id(old): new for old, new in zip(taken.setup.queries, generation.setup.queries, strict=True)}
                queries = tuple(begun.get(id(query), query) for query in self._pending.setup.queries)
                self._pending = replace(self._pending, changes=left, setup=replace(self._pending.setup, queries=queries))
            for change in settled:
                change._batch = batch if change._batch is None else change._batch
            self._incomplete += [change for change in settled if change.query is not None]
            self._told.notify_all()

    def completed(self, complete: Mapping[str, int]) -> None:
        """From which batch on the results of queries are complete, as far as that is known."""
        since = {query.name: query.batch for query in self._running.setup.queries}
        left = []
        for change in self._incomplete:
            if change.query is not None and since.get(change.query) == change.batch:
                change._complete = complete.get(change.query)
                left += [change] if change._complete is None else []
        self._incomplete = left

    def refuse(self, taken: Pending, error: Exception) -> None:
        """What was taken cannot be; the run goes on as it was. What was asked for on top of it cannot be, either. A stream stays: its
        handle has told a batch already. Where nothing was taken it was the planner's own offer that failed."""
        _LOG.error("%s was given up: %s", ", ".join(change.what for change in taken.changes) or "a better plan", error)
        if not taken.changes:
            return
        with self._told:
            kept = tuple(change for change in self._pending.changes if change._batch is not None)
            for change in self._pending.changes:
                if change not in kept:
                    change._error = error if isinstance(error, ClashError) else _cannot_be(error)
            setup = replace(self._running.setup, streams=self._pending.setup.streams)
            self._pending = Pending(kept, setup, self._running.plan if kept else None, False)
            self._told.notify_all()

    def close(self, error: ClashError | None = None) -> None:
        """No batch comes any more: nobody waits in vain."""
        with self._told:
            self._closed = error or ClashError("the run has ended", "the change has not been made", "start the run again")
            for change in self._pending.changes:
                change._error = self._closed
            self._told.notify_all()


def _cannot_be(error: Exception) -> ClashError:
    return ClashError("the change cannot be made", str(error), "the run goes on as it was: ask again, or for less at a time")


def _flag(history: bool) -> bool:
    if not isinstance(history, bool):
        raise OptionError("history is neither True nor False", repr(history), "write history=False for tuples from now on only")
    return history
