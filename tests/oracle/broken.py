"""Rules of the engine, broken one by one: what a random history has to notice. `PROGRAMS`: those of programs and streams that come and go;
`STREAMS`: those of streams that are declared otherwise."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from clash.coordinator import active_generation, committed_batch, coordinator, next_manifest, recovery
from clash.coordinator.checkpoint import generation
from clash.coordinator.checkpoint.generation import Generation
from clash.coordinator.control import restart
from clash.coordinator.control.job import JobSpec, ProgramRecord
from clash.coordinator.control.setup import Setup
from clash.coordinator.lifecycle import backfill, retention, store_history
from clash.coordinator.lifecycle.store_history import Introduction
from clash.plan.physical import ProbeStep
from clash.plan.topology import ProbeRule, Topology
from clash.plan.visibility import VisibilityBounds
from clash.protocol import containers
from clash.topology import branches
from clash.workers import older_layouts, stores
from clash.workers.stored_container import StoredContainer


def _rules(**fields: Any) -> AbstractContextManager[Any]:
    build = active_generation.build_topology

    def broken(*arguments: Any) -> Topology:
        made = build(*arguments)
        rules = (replace(rule, **fields) if isinstance(rule, ProbeRule) else rule for rule in made.rules)
        return replace(made, rules=tuple(rules))

    return patch.multiple(active_generation, build_topology=broken, validate_topology=lambda topology: None)


def _pasts(change: Callable[[VisibilityBounds], VisibilityBounds]) -> AbstractContextManager[Any]:
    real = Generation.visibility
    return patch.object(Generation, "visibility", lambda *arguments: change(real(*arguments)))


def _never_dropped() -> AbstractContextManager[Any]:
    """An intermediate store that comes back counts as there all the time."""
    first: dict[tuple[int, str], int] = {}
    make = generation.begin_generation

    def broken(previous: Generation | None, *arguments: Any) -> Generation:
        made = make(previous, *arguments)
        if previous is None:
            first.clear()
        begun = {s: Introduction(b.generation, first.setdefault((0, s), b.arrival)) for s, b in made.stores.introduced.items()}
        return replace(made, stores=replace(made.stores, introduced=begun))

    return patch.object(coordinator, "begin_generation", broken)


def _all_answer_for_hot_rows() -> AbstractContextManager[Any]:
    real = StoredContainer.visible

    def broken(stored: StoredContainer, step: ProbeStep, rows: Any) -> Any:
        return real(stored, replace(step, own_rows_only=step.own_rows_only and step.broadcast), rows)

    return patch.object(StoredContainer, "visible", broken)


def _rewritten_stay() -> AbstractContextManager[Any]:
    after = next_manifest.containers_after
    return patch.object(next_manifest, "containers_after", lambda work, rounds: after(replace(work, relayout=()), rounds))


def _backfill_not_awaited() -> AbstractContextManager[Any]:
    def broken(introduced: backfill.Introduced, progress: backfill.Progress) -> frozenset[str]:
        return frozenset(s for s, begun in introduced.items() if s in progress and progress[s][0] == begun.generation)

    return _both("filled_stores", broken)


def row_filters_do_not_count() -> AbstractContextManager[Any]:
    def broken(entry: retention.RetentionEntry, query: Any, relation: Any, owner: str | None) -> bool:
        return any(mine == owner and retention.needed_columns(query, relation) <= names for mine, names, _ in entry.retained)

    return patch.object(retention.RetentionEntry, "serves", broken)


def _one_copy_of_several() -> AbstractContextManager[Any]:
    """Rows that were rewritten go from the first copy alone."""
    trimmed = containers.after_relayout
    return patch.object(committed_batch, "after_relayout", lambda record, moved: record if record.copy else trimmed(record, moved))


def _own_slot_alone() -> AbstractContextManager[Any]:
    """Older containers are read as if they had been cut for today's workers."""
    seen = older_layouts.containers_for_worker

    def broken(laid: Any, today: Any, workers: int, worker: int, records: Any) -> Any:
        return ((r, mixed) for r, mixed in seen(laid, today, workers, worker, records) if r.slot % workers == worker)

    return patch.object(stores, "containers_for_worker", broken)


def _compared_with_what_is_live() -> AbstractContextManager[Any]:
    """A program that starts again is taken to have listed all that ran."""
    real = recovery.setup_after_restart

    def broken(running: Setup, last: ProgramRecord, job: JobSpec, uri: str, committed: Setup) -> Setup:
        return real(running, replace(last, queries=tuple(live.request for live in running.queries)), job, uri, committed)

    return patch.object(recovery, "setup_after_restart", broken)


@dataclass(frozen=True)
class Start:
    """A program that starts again."""

    running: Setup
    last: ProgramRecord
    job: JobSpec


def _programs(change: Callable[[Start, Setup], Setup]) -> AbstractContextManager[Any]:
    real = recovery.setup_after_restart

    def broken(running: Setup, last: ProgramRecord, job: JobSpec, uri: str, committed: Setup) -> Setup:
        return change(Start(running, last, job), real(running, last, job, uri, committed))

    return patch.object(recovery, "setup_after_restart", broken)


def _begun_again(start: Start, setup: Setup) -> Setup:
    """What a program lists now and did not then is a new query, even if it is live as it says."""
    new = {request.name for request in start.job.queries} - {request.name for request in start.last.queries}
    return replace(setup, queries=tuple(setup.parse(q.request) if q.name in new else q for q in setup.queries))


def _removed_come_back(start: Start, setup: Setup) -> Setup:
    removed = [request for request in start.job.queries if request.name not in setup.query_names]
    return replace(setup, queries=(*setup.queries, *map(setup.parse, removed)))


def _as_at_first() -> Callable[[JobSpec], ProgramRecord]:
    """The list of the first start counts for ever."""
    real, first = JobSpec.record, dict[int, ProgramRecord]()
    return lambda job: first.setdefault(0, real(job))


def _both(name: str, broken: Callable[..., Any]) -> AbstractContextManager[Any]:
    """Broken where the coordinator starts, and where it decides."""
    stack = ExitStack()
    stack.enter_context(patch.object(coordinator, name, broken))
    stack.enter_context(patch.object(recovery, name, broken))
    return stack


def _boundaries_are_not_forced() -> AbstractContextManager[Any]:
    real = coordinator.next_epoch
    return patch.object(coordinator, "next_epoch", lambda last, length, batch, now, force: real(last, length, batch, now))


PROGRAMS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "a program is compared with what is live": _compared_with_what_is_live,
    "a program changes nothing": lambda: _programs(lambda start, setup: replace(start.running, streams=setup.streams)),
    "a program's workers always count": lambda: _programs(lambda start, setup: setup.rescale(start.job.workers)),
    "a program's workers never count": lambda: _programs(lambda start, setup: setup.rescale(start.running.workers)),
    "what a program lists begins anew": lambda: _programs(_begun_again),
    "what was removed comes back": lambda: _programs(_removed_come_back),
    "boundaries are not forced": _boundaries_are_not_forced,
    "the program is not recorded": lambda: patch.object(JobSpec, "record", _as_at_first()),
}


def _columns_come_alone() -> AbstractContextManager[Any]:
    """Where all columns are retained, they are taken to have been there from the first."""
    real = store_history.StoreHistory._columns

    def broken(history: Any, topology: Topology, *arguments: Any) -> Any:
        found = real(history, topology, *arguments)
        retained = {stream.name for stream in topology.streams if stream.keep == "all"}
        return {name: columns for name, columns in found.items() if topology.store[name].stream not in retained}

    return patch.object(store_history.StoreHistory, "_columns", broken)


STREAMS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "other windows change nothing": lambda: patch.object(generation.LiveQuery, "begins_with", lambda live, batch: live.batch == batch),
    "stores had the rows of other windows": lambda: patch.object(generation.LiveQuery, "since", property(lambda live: live.arrival)),
    "retained columns were always there": _columns_come_alone,
    "a program's options always count": lambda: patch.object(restart, "merge_options", lambda declared, last, running: declared),
    "a program's options never count": lambda: patch.object(
        restart,
        "merge_options",
        lambda declared, last, running: declared if running is None else replace(running, columns=declared.columns),
    ),
    "a live query has the windows of its beginning": lambda: patch.object(generation.LiveQuery, "over", lambda live, streams: live),
}
BROKEN: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "a branch reads what was completed before": lambda: _rules(since=0),
    "a branch reads what was completed later": lambda: _rules(before=None),
    "the rows of other workers count": lambda: patch.object(StoredContainer, "own", lambda stored, rows=None: None),
    "only the own slot is read": _own_slot_alone,
    "every worker answers for rows with hot keys": _all_answer_for_hot_rows,
    "rewritten containers stay": _rewritten_stay,
    "copies are rewritten one by one": _one_copy_of_several,
    "rows that move are there twice": lambda: patch.object(stores, "after_relayout", lambda record, moved: record),
    "a store that comes back was there all the time": _never_dropped,
    "back-filling is not awaited": _backfill_not_awaited,
    "columns were always kept": lambda: _pasts(lambda p: replace(p, columns={})),
    "stores were always there": lambda: _pasts(lambda p: replace(p, introduced={})),
    "queries were always asked": lambda: _pasts(lambda p: replace(p, added={})),
    "no history is history": lambda: _pasts(lambda p: replace(p, without_history={})),
    "old rows have gone": lambda: _pasts(lambda p: replace(p, oldest={})),
    "a part's columns do not matter": lambda: patch.object(branches._Brancher, "_columns_since", lambda *arguments: 0),
    "complete at once": lambda: patch.object(active_generation, "is_complete", lambda *arguments: True),
    "dropped columns are still there": lambda: patch.object(retention, "_still_retained", lambda entry, now, lost: entry.retained),
    "nothing has gone": lambda: patch.object(active_generation.ActiveGeneration, "lost_until", lambda *arguments: {}),
}
