"""The smallest history, by dropping things greedily, that still goes wrong in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from clash.errors import ClashError

from .case import Batch, Case, Program, Setting
from .compare import differences

_PLAIN: dict[str, Any] = {**vars(Setting(partitions=1, mirs=False))}
del _PLAIN["workers"], _PLAIN["plan_seed"]


def failure(case: Case) -> str | None:
    """What goes wrong, as one line per difference; None if nothing does."""
    try:
        found = differences(case)
    except Exception as error:
        detail = f" ({error.detail})" if isinstance(error, ClashError) else ""
        return f"{type(error).__name__}: {error}{detail}"
    return "\n".join(found) or None


def smallest(case: Case, fails: Callable[[Case], str | None] = failure, seconds: float = 60.0) -> Case:
    """Crashes stay crashes of the same kind, differences stay differences."""
    until = time.monotonic() + seconds
    kind = _kind(fails(case))
    choice = list(_smaller(case))
    at = unchanged = 0
    while unchanged < len(choice) and time.monotonic() < until:
        at = at if at < len(choice) else 0
        if _kind(fails(choice[at])) == kind:
            case, unchanged = choice[at], 0
            choice = list(_smaller(case))  # what comes next is in the same place now
        else:
            at, unchanged = at + 1, unchanged + 1
    return case


def _kind(told: str | None) -> str | None:
    if told is None:
        return None
    head = told.split(":")[0]
    return head if head.isidentifier() else "differs"


def _smaller(case: Case) -> Iterator[Case]:
    """Large cuts first."""
    for at in range(len(case.queries)):
        if len(case.queries) > 1:
            yield replace(case, queries=case.queries[:at] + case.queries[at + 1 :])
    used = {relation.stream for ask in case.asks for relation in case.parse(ask).join.relations}
    if len(used) < len(case.streams):
        rows = [replace(b, rows={n: r for n, r in b.rows.items() if n in used}) for b in case.batches]
        yield replace(case, streams=tuple(s for s in case.streams if s.name in used), batches=tuple(rows))
    for at in range(len(case.batches)):
        if len(case.batches) > 1:
            yield replace(case, batches=case.batches[:at] + case.batches[at + 1 :])
    for at, batch in enumerate(case.batches):
        for fewer in _fewer(batch):
            yield replace(case, batches=(*case.batches[:at], fewer, *case.batches[at + 1 :]))
    for at in range(1, len(case.batches)):
        first, second = case.batches[at - 1], case.batches[at]
        if first.quiet or second.quiet:
            continue
        rows = {name: (*first.rows.get(name, ()), *second.rows.get(name, ())) for name in {**first.rows, **second.rows}}
        one = replace(first, rows=rows, changes=(*first.changes, *second.changes))
        yield replace(case, batches=(*case.batches[: at - 1], one, *case.batches[at + 1 :]))
    for at in range(len(case.hidden)):
        yield replace(case, hidden=case.hidden[:at] + case.hidden[at + 1 :])
    for workers in range(1, case.setting.workers):
        yield replace(case, setting=replace(case.setting, workers=workers))
    if case.setting.plan_seed is not None:
        yield replace(case, setting=replace(case.setting, plan_seed=None))
    for field, value in _PLAIN.items():
        if getattr(case.setting, field) != value:
            yield replace(case, setting=replace(case.setting, **{field: value}))
    for at, stream in enumerate(case.streams):
        for field in ("window", "idle", "lateness"):
            if getattr(stream, field) is not None:
                calmer = replace(stream, **{field: None, **({"idle": None} if field == "lateness" else {})})
                yield replace(case, streams=(*case.streams[:at], calmer, *case.streams[at + 1 :]))


def _fewer(batch: Batch) -> Iterator[Batch]:
    if batch.restart:
        yield replace(batch, restart=False, program=None)
    if batch.fail is not None:
        yield replace(batch, fail=None, second=None)
    if batch.program is not None:
        yield replace(batch, program=None)
        yield from (replace(batch, program=program) for program in _less(batch.program))
    if batch.second is not None:
        yield replace(batch, second=None)
        yield from (replace(batch, second=program) for program in _less(batch.second))
    if batch.plan_seed is not None:
        yield replace(batch, plan_seed=None)
    for at, change in enumerate(batch.changes):
        yield replace(batch, changes=batch.changes[:at] + batch.changes[at + 1 :])
        if not change.history:
            yield replace(batch, changes=(*batch.changes[:at], replace(change, history=True), *batch.changes[at + 1 :]))
        for option in range(len(change.options) if len(change.options) > 1 else 0):
            fewer = replace(change, options=change.options[:option] + change.options[option + 1 :])
            yield replace(batch, changes=(*batch.changes[:at], fewer, *batch.changes[at + 1 :]))
        if change.workers > 1:
            yield replace(batch, changes=(*batch.changes[:at], replace(change, workers=change.workers - 1), *batch.changes[at + 1 :]))
    if batch.quiet:
        return
    for name, rows in batch.rows.items():
        size = len(rows)
        while size:
            for start in range(0, len(rows), size):
                yield replace(batch, rows={**batch.rows, name: rows[:start] + rows[start + size :]})
            size //= 2


def _less(program: Program) -> Iterator[Program]:
    for at in range(len(program.queries)):
        yield replace(program, queries=program.queries[:at] + program.queries[at + 1 :])
    for at in range(len(program.declared)):
        yield replace(program, declared=program.declared[:at] + program.declared[at + 1 :])
    for at in range(len(program.streams)):
        yield replace(program, streams=program.streams[:at] + program.streams[at + 1 :])
    for workers in range(1, program.workers):
        yield replace(program, workers=workers)
