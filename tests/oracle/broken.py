"""Rules of the engine, broken one by one: what a random history has to notice. `PROGRAMS`: those of programs and streams that change."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from clash.coordinator import active_generation, committed_batch, coordinator
from clash.coordinator.checkpoint import generation
from clash.coordinator.checkpoint.generation import Generation, Introduction
from clash.coordinator.control.job import JobSpec
from clash.coordinator.control.setup import LiveQuery, Setup
from clash.coordinator.lifecycle import backfill, relayout, retention
from clash.plan.topology import ProbeRule, Topology
from clash.plan.visibility import VisibilityBounds
from clash.topology import branches
from clash.workers import older_layouts, stores


def _rules(**fields: Any) -> AbstractContextManager[Any]:
    build = active_generation.build

    def broken(*arguments: Any) -> Topology:
        made = build(*arguments)
        rules = (replace(rule, **fields) if isinstance(rule, ProbeRule) else rule for rule in made.rules)
        return replace(made, rules=tuple(rules))

    return patch.object(active_generation, "build", broken)


def _pasts(change: Callable[[VisibilityBounds], VisibilityBounds]) -> AbstractContextManager[Any]:
    real = Generation.past
    return patch.object(Generation, "past", lambda *arguments: change(real(*arguments)))


def _never_dropped() -> AbstractContextManager[Any]:
    """An intermediate store that comes back counts as there all the time."""
    first: dict[tuple[int, str], int] = {}
    make = generation.next_generation

    def broken(previous: Generation | None, *arguments: Any) -> Generation:
        made = make(previous, *arguments)
        if previous is None:
            first.clear()
        begun = {s: Introduction(b.generation, first.setdefault((0, s), b.arrival)) for s, b in made.introduced.items()}
        return replace(made, introduced=begun)

    return patch.object(coordinator, "next_generation", broken)


def _rewritten_stay() -> AbstractContextManager[Any]:
    after = coordinator.containers_after
    return patch.object(coordinator, "containers_after", lambda work, rounds: after(replace(work, rewrite=()), rounds))


def _backfill_not_awaited() -> AbstractContextManager[Any]:
    def broken(made: Generation, progress: backfill.Progress) -> frozenset[str]:
        return frozenset(s for s, begun in made.introduced.items() if s in progress and progress[s][0] == begun.generation)

    return patch.object(coordinator, "filled_stores", broken)


def row_filters_do_not_count() -> AbstractContextManager[Any]:
    def broken(entry: retention.RetentionEntry, query: Any, relation: Any, owner: str | None) -> bool:
        return any(mine == owner and retention.needed_columns(query, relation) <= names for mine, names, _ in entry.kept)

    return patch.object(retention.RetentionEntry, "serves", broken)


def _one_copy_of_several() -> AbstractContextManager[Any]:
    """Rows that were rewritten go from the first copy alone."""
    trimmed = relayout.after_relayout
    return patch.object(committed_batch, "after_relayout", lambda record, moved: record if record.copy else trimmed(record, moved))


def _own_slot_alone() -> AbstractContextManager[Any]:
    """Older containers are read as if they had been cut for today's workers."""
    seen = older_layouts.containers_for_worker

    def broken(laid: Any, today: Any, workers: int, worker: int, records: Any) -> Any:
        return ((r, mixed) for r, mixed in seen(laid, today, workers, worker, records) if r.slot % workers == worker)

    return patch.object(stores, "containers_for_worker", broken)


def _compared_with_what_is_live() -> AbstractContextManager[Any]:
    """A program that starts again is taken to have listed all that ran."""
    real = coordinator.setup_after_restart

    def broken(before: Generation, job: JobSpec, uri: str) -> Setup:
        queries = [live.request.to_json() for live in before.setup.queries]
        return real(replace(before, program={**before.program, "queries": queries}), job, uri)

    return patch.object(coordinator, "setup_after_restart", broken)


def _programs(change: Callable[[Generation, Setup, JobSpec], Setup]) -> AbstractContextManager[Any]:
    real = coordinator.setup_after_restart
    return patch.object(coordinator, "setup_after_restart", lambda before, job, uri: change(before, real(before, job, uri), job))


def _begun_anew(before: Generation, setup: Setup, job: JobSpec) -> Setup:
    """What a program lists now and did not then is a new query, even if it is live as it says."""
    then = {query["name"] for query in before.program["queries"]}
    new = {asked.name for asked in job.queries} - then
    return replace(setup, queries=tuple(LiveQuery(q.request) if q.name in new else q for q in setup.queries))


def _removed_come_back(before: Generation, setup: Setup, job: JobSpec) -> Setup:
    return replace(setup, queries=(*setup.queries, *(LiveQuery(asked) for asked in job.queries if asked.name not in setup.names)))


def _as_at_first() -> Callable[[JobSpec], dict[str, Any]]:
    """The list of the first start counts for ever."""
    real, first = JobSpec.to_json, dict[Any, dict[str, Any]]()
    return lambda job: first.setdefault(0, real(job))


def _borders_are_not_forced() -> AbstractContextManager[Any]:
    real = coordinator.next_epoch
    return patch.object(coordinator, "next_epoch", lambda last, length, batch, now, force: real(last, length, batch, now))


PROGRAMS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "a program is compared with what is live": _compared_with_what_is_live,
    "a program changes nothing": lambda: _programs(lambda before, setup, job: replace(before.setup, streams=setup.streams)),
    "a program's workers always count": lambda: _programs(lambda before, setup, job: setup.rescale(job.workers)),
    "a program's workers never count": lambda: _programs(lambda before, setup, job: setup.rescale(before.setup.workers)),
    "what a program lists begins anew": lambda: _programs(_begun_anew),
    "what was removed comes back": lambda: _programs(_removed_come_back),
    "borders are not forced": _borders_are_not_forced,
    "the program is not recorded": lambda: patch.object(JobSpec, "to_json", _as_at_first()),
}
BROKEN: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "a branch reads what was completed before": lambda: _rules(since=0),
    "a branch reads what was completed later": lambda: _rules(before=None),
    "the rows of other workers count": lambda: patch.object(stores.StoredContainer, "mine", lambda stored, rows=None: None),
    "only the own slot is read": _own_slot_alone,
    "rewritten containers stay": _rewritten_stay,
    "copies are rewritten one by one": _one_copy_of_several,
    "rows that move are there twice": lambda: patch.object(stores, "after_relayout", lambda record, moved: record),
    "a store that comes back was there all the time": _never_dropped,
    "back-filling is not awaited": _backfill_not_awaited,
    "columns were always kept": lambda: _pasts(lambda p: replace(p, columns={})),
    "stores were always there": lambda: _pasts(lambda p: replace(p, introduced={})),
    "queries were always asked": lambda: _pasts(lambda p: replace(p, added={})),
    "no history is history": lambda: _pasts(lambda p: replace(p, fresh=frozenset())),
    "old rows have gone": lambda: _pasts(lambda p: replace(p, oldest={})),
    "a part's columns do not matter": lambda: patch.object(branches._Brancher, "_kept", lambda *arguments: 0),
    "complete at once": lambda: patch.object(active_generation, "is_complete", lambda *arguments: True),
    "dropped columns are still there": lambda: patch.object(retention, "_left", lambda entry, now, gone: entry.kept),
    "nothing has gone": lambda: patch.object(active_generation.ActiveGeneration, "gone", lambda *arguments: {}),
}
