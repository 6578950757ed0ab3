"""Changes that are requested while batches run: at any time, from any thread, in effect at the next epoch boundary.

Invariant: what cannot be parsed or planned is refused at the call, and the running queries do not notice. Changes take effect in the order
of the calls, all that wait at one boundary together. A handle names a batch only once that batch is recorded as one under the change, so it
never names one that then runs without it. The plan is the heuristic's and is made at the call: a boundary does not wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Condition, Lock
from typing import Any

from clash.coordinator.control.job import QueryRequest
from clash.coordinator.control.result_folders import refuse_mixed_columns
from clash.coordinator.control.setup import Setup
from clash.errors import ClashError, OptionError
from clash.model.durations import parse_timeout
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.plan.logical import LogicalPlan

_LOG = logging.getLogger("clash")


class Change:
    """The handle of a change that was requested."""

    def __init__(self, description: str, queries: tuple[str, ...], settled: Condition) -> None:
        self.description, self.queries = description, queries
        self._settled = settled
        self._batch: int | None = None
        self._complete_from: int | None = None
        self._error: ClashError | None = None

    def __repr__(self) -> str:
        return f"<{self.description}: {'waits' if self._batch is None else f'batch {self._batch}'}>"

    @property
    def batch(self) -> int | None:
        """The first batch under the change; None until there is one."""
        return self._batch

    @property
    def complete_from(self) -> int | None:
        """The first batch from which on nothing can be missing that arrived before the change, of all queries that it concerns; None until
        that is known."""
        return self._complete_from if self.queries else self._batch

    def wait(self, timeout: float | str | None = None) -> int | None:
        """The first batch under the change; None if there is none within `timeout`, seconds or a duration. Without new data there is
        none."""
        seconds = parse_timeout(timeout, "the timeout")
        with self._settled:
            self._settled.wait_for(lambda: self._batch is not None or self._error is not None, seconds)
            if self._error is not None:
                raise self._error
            return self._batch


@dataclass(frozen=True)
class Pending:
    """What waits for a boundary."""

    changes: tuple[Change, ...]
    setup: Setup
    """As it is after all changes."""
    plan: LogicalPlan | None
    """A plan for the set-up; None where none could be made in time."""
    plan_is_given: bool
    """Whether a caller gave the plan."""


@dataclass(frozen=True)
class RunningSetup:
    """What runs: the set-up and the plan of the active generation."""

    setup: Setup
    plan: LogicalPlan


class Changes:
    """`statistics`: returns those to plan with; `check_folders(after, *before)`: refuses folders that belong to others."""

    def __init__(
        self,
        running: RunningSetup,
        statistics: Callable[[], Statistics | None],
        check_folders: Callable[..., None],
    ) -> None:
        self._statistics, self._check_folders = statistics, check_folders
        self._settled = Condition()  # held briefly: boundaries take it, too
        self._calls = Lock()  # held while planning: one call after the other
        self._running = running
        self._pending = Pending((), running.setup, None, False)
        self._closed: ClashError | None = None
        self._incomplete: list[Change] = []

    # ---- requests ----------------------------------------------------------------------------------------------

    def add_query(self, request: QueryRequest, history: bool = True) -> Change:
        """A new query. With history it also joins tuples that are stored already, without it only those from now on."""
        _check_history(history)
        return self._request_query(f"add {request.name}", request, lambda setup: setup.add_query(request, history))

    def replace_query(self, request: QueryRequest, history: bool = True) -> Change:
        """Another query under the same name, at one boundary."""
        _check_history(history)
        return self._request_query(f"replace {request.name}", request, lambda setup: setup.replace_query(request, history))

    def _request_query(self, description: str, request: QueryRequest, apply: Callable[[Setup], Setup]) -> Change:
        return self._request(description, lambda setup: self._refuse_mixed_folders(setup, apply(setup)), (request.name,))

    def remove_query(self, name: str) -> Change:
        return self._request(f"remove {name}", lambda setup: setup.remove_query(name))

    def rescale(self, workers: int) -> Change:
        return self._request(f"rescale to {workers}", lambda setup: setup.rescale(workers))

    def add_stream(self, stream: Stream, batch: int) -> Change:
        """In effect at once, with the next batch: nothing differs before a query reads the stream, and that waits for a boundary."""
        change = self._request(f"add stream {stream.name}", lambda setup: setup.add_stream(stream))
        change._batch = batch
        return change

    def change_stream(self, name: str, options: Mapping[str, Any]) -> Change:
        """Other options of a stream. Queries whose windows change with it are answered under the new ones from the same boundary on."""
        return self._request(f"change stream {name}", lambda setup: setup.change_stream(name, options))

    def replan(self, plan: LogicalPlan) -> Change:
        """Use this plan, which has to fit the queries and workers of then."""

        def check(setup: Setup) -> Setup:
            if not setup.fits(plan):
                hint = f"it needs {', '.join(setup.query_names)} on {setup.workers} workers"
                raise OptionError("the plan is for other queries or workers", f"{len(plan.queries)} on {plan.workers}", hint)
            return setup

        return self._request("use a given plan", check, plan=plan)

    def restart(self, setup: Setup, description: str) -> Change:
        """What a changed program requests at its start."""
        return self._request(description, lambda before: self._refuse_mixed_folders(before, setup))

    @property
    def setup(self) -> Setup:
        """As it will be after all requests."""
        return self._pending.setup

    def _refuse_mixed_folders(self, before: Setup, after: Setup) -> Setup:
        """Raises if a folder belongs to others, or would get results with two sets of columns, counting queries that still write until the
        boundary."""
        refuse_mixed_columns(after, before, self._running.setup)
        self._check_folders(after, before, self._running.setup)
        return after

    def _request(
        self, description: str, apply: Callable[[Setup], Setup], queries: tuple[str, ...] = (), plan: LogicalPlan | None = None
    ) -> Change:
        with self._calls:
            with self._settled:
                if self._closed is not None:
                    raise self._closed
                before, running = self._pending, self._running
            setup = apply(before.setup)
            change = Change(description, queries or _with_other_windows(before.setup, setup), self._settled)
            trial = plan or self._plan(before, running, setup)
            with self._settled:
                if self._pending is not before:  # a boundary came meanwhile: the same queries, of which some run by now
                    setup = apply(self._pending.setup)
                self._pending = Pending((*self._pending.changes, change), setup, trial, plan is not None)
            return change

    def _plan(self, before: Pending, running: RunningSetup, setup: Setup) -> LogicalPlan:
        if before.plan_is_given and before.plan is not None and setup.fits(before.plan):
            return before.plan
        if setup.has_plan_of(running.setup):
            return running.plan
        return setup.optimize(self._statistics(), start=before.plan or running.plan)

    # ---- boundaries --------------------------------------------------------------------------------------------

    def peek(self) -> Pending:
        """What a boundary has to put into effect; it stays pending until the batch is recorded."""
        with self._settled:
            return self._pending

    def settle(self, taken: Pending | None, running: RunningSetup, batch: int) -> None:
        """The batch is recorded, under everything that was taken."""
        with self._settled:
            self._running = running
            settled = () if taken is None else taken.changes
            left = tuple(change for change in self._pending.changes if change not in settled)
            if not left:
                self._pending = Pending((), running.setup, None, False)
            elif taken is not None:
                # A request is one query, whatever windows later changes give it.
                begun = {id(old.request): new for old, new in zip(taken.setup.queries, running.setup.queries, strict=True)}
                queries = tuple(
                    query if (new := begun.get(id(query.request))) is None else replace(new, query=query.query)
                    for query in self._pending.setup.queries
                )
                self._pending = replace(self._pending, changes=left, setup=replace(self._pending.setup, queries=queries))
            for change in settled:
                change._batch = batch if change._batch is None else change._batch
            self._incomplete += [change for change in settled if change.queries]
            self._settled.notify_all()

    def complete(self, complete_from: Mapping[str, int]) -> None:
        """By branch of a query, the batch from which on its results are complete, as far as that is known."""
        begun = {query.name: query.batch for query in self._running.setup.queries if query.batch is not None}
        branches = {live.name: [branch.name for branch in live.query.branches] for live in self._running.setup.queries}
        left = []
        for change in self._incomplete:
            batch = -1 if change.batch is None else change.batch
            live = [name for name in change.queries if begun.get(name, batch + 1) <= batch]  # not removed or replaced since
            needed = [branch for name in live for branch in branches[name]]
            if live and all(name in complete_from for name in needed):
                change._complete_from = max(batch, *(complete_from[name] for name in needed))
            elif live:
                left.append(change)
        self._incomplete = left

    def refuse(self, taken: Pending, error: Exception) -> None:
        """What was taken cannot be put into effect; the run continues as it was. What was requested on top of it is refused, too. A new
        stream stays: its handle has named a batch already. Where nothing was taken, the planner's own offer has failed."""
        _LOG.error("%s was given up: %s", ", ".join(change.description for change in taken.changes) or "a better plan", error)
        if not taken.changes:
            return
        with self._settled:
            in_effect = tuple(change for change in self._pending.changes if change._batch is not None)
            for change in self._pending.changes:
                if change not in in_effect:
                    change._error = error if isinstance(error, ClashError) else _refusal(error)
            running = self._running.setup.streams_by_name
            streams = tuple(running.get(stream.name, stream) for stream in self._pending.setup.streams)
            setup = replace(self._running.setup, streams=streams)
            self._pending = Pending(in_effect, setup, self._running.plan if in_effect else None, False)
            self._settled.notify_all()

    def close(self, error: ClashError | None = None) -> None:
        """No batch comes any more: every waiting call ends with an error."""
        with self._settled:
            self._closed = error or ClashError("the run has ended", "the change has not been made", "start the run again")
            for change in self._pending.changes:
                change._error = self._closed
            self._settled.notify_all()


def _refusal(error: Exception) -> ClashError:
    return ClashError("the change cannot be made", str(error), "the run continues as it was: request it again, or less at a time")


def _with_other_windows(before: Setup, after: Setup) -> tuple[str, ...]:
    """The queries that a change gives other windows."""
    windows = {live.name: live.query.windows for live in before.queries}
    return tuple(live.name for live in after.queries if live.name in windows and live.query.windows != windows[live.name])


def _check_history(history: object) -> None:
    if not isinstance(history, bool):
        raise OptionError("history is neither True nor False", repr(history), "write history=False for tuples from now on only")
