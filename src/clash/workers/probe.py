"""One step of a probe order: a block of partial results meets a store.

Invariant: a match is made iff the stored row came before the probing tuple, in the total order of (arrival, number). Where everything in a
container came before everything that probes, as in all containers but those of this batch, no numbers are compared. Rows of a table came
before everything, and have no event time. The blocks of results are bounded, however much the join multiplies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.columnar.block import Block, Bools, Rows, deadlines, ints, take
from clash.columnar.index import Checks, probe, scan
from clash.columnar.key_words import Words, key_words, same
from clash.expressions import holds
from clash.model.block_columns import ARRIVAL, DEADLINE, EARLIEST, EVENT_TIME, LATEST, NUMBER_BITS, part_event_time
from clash.model.relation import Attribute, Relation
from clash.plan.physical import ProbeStep
from clash.workers.loaded_plan import LoadedPlan
from clash.workers.stored_container import StoredContainer
from clash.workers.table_rows import TableRows

Probed = StoredContainer | TableRows


class Pairs(NamedTuple):
    """Rows of a probing block, and the rows of a container that they meet."""

    container: Probed
    left: Rows
    right: Rows


def probe_step(plan: LoadedPlan, step: ProbeStep, block: Block, containers: Sequence[Probed], piece: int) -> Iterator[Block]:
    """The results of `block` at the step, in blocks of about `piece` rows."""
    if not block.rows:
        return
    first = int(block.ints(ARRIVAL).min()) >> NUMBER_BITS << NUMBER_BITS  # a stored tuple may take part under a larger number
    words = None
    if step.keys:
        words = key_words([block.columns[str(key.bound)] for key in step.keys], [key.type for key in step.keys], plan.timezone)
    pairs, total = list[Pairs](), 0
    for container in containers:
        checks = _checks(plan, step, block, container, first)
        if checks is None:
            continue
        resume: tuple[int, int] | None = (0, 0)
        while resume is not None:
            left, right, resume = _look_up(step, container, block, words, checks, resume, piece - total)
            if len(left):
                pairs.append(Pairs(container, left, right))
                total += len(left)
            if total >= piece:
                yield from _results(plan, step, block, words, pairs)
                pairs, total = [], 0
    yield from _results(plan, step, block, words, pairs)


def _look_up(
    step: ProbeStep, container: Probed, block: Block, words: Words | None, checks: Checks, resume: tuple[int, int], limit: int
) -> Any:
    """At most `limit` pairs, and where to go on."""
    if words is None or step.path is None:
        return scan(block.rows, container.block.rows, checks, resume, limit)
    return probe(container.index(step.path), words.words, words.valid, checks, resume, limit)


def _checks(plan: LoadedPlan, step: ProbeStep, block: Block, container: Probed, first: int) -> Checks | None:
    """What the kernel compares beside the key; None if no row of the container can match."""
    if isinstance(container, TableRows):
        return Checks()
    arrival_probe = arrival_stored = latest_probe = deadline_probe = latest_stored = deadline_stored = None
    record = container.record
    if record.last_arrival < step.since or (step.before is not None and record.oldest >= step.before):
        return None
    if record.last_arrival >= first:
        arrival_probe, arrival_stored = block.ints(ARRIVAL), container.ints(ARRIVAL)
    if plan.timed:
        latest_probe, deadline_probe = block.ints(LATEST), block.ints(DEADLINE)
        is_base = container.copy.is_base
        latest_stored, deadline_stored = (
            container.ints(EVENT_TIME if is_base else LATEST),
            container.ints(EVENT_TIME if is_base else DEADLINE),
        )
        if is_base:
            (low, high), *_ = record.time_ranges
            if high + step.window < latest_probe.min() or low > deadline_probe.max():
                return None
    return Checks(arrival_probe, arrival_stored, step.number, latest_probe, deadline_probe, latest_stored, deadline_stored, step.window)


def _results(plan: LoadedPlan, step: ProbeStep, block: Block, words: Words | None, pairs: Sequence[Pairs]) -> Iterator[Block]:
    """One block of the pairs that pass everything that the kernel does not check."""
    if not pairs:
        return
    matches = _Matches(step, block, pairs)
    matches.keep(_visible(step, pairs))
    if words is not None and not words.exact:
        for key in step.keys:
            if matches.rows:
                matches.keep(same(matches.column(key.bound), matches.column(key.stored), key.type, plan.timezone))
    for conditions in (step.stored_conditions, step.residuals):
        if matches.rows and conditions:
            matches.keep(holds(conditions, lambda col: matches.column(Attribute(col.relation, col.column)), matches.rows, plan.timezone))
    if matches.rows:
        yield _gather(plan, step, matches)


def _visible(step: ProbeStep, pairs: Sequence[Pairs]) -> Bools | None:
    """Which pairs belong to this branch of the step and to this worker, and have not been removed; None for all."""
    masks, any_mask = [], False
    for container, left, right in pairs:
        mask = container.visible(step, right)
        any_mask = any_mask or mask is not None
        masks.append(np.ones(len(left), np.bool_) if mask is None else mask)
    return np.concatenate(masks) if any_mask else None


class _Matches:
    """Pairs of rows, and the columns that are gathered for them on demand."""

    def __init__(self, step: ProbeStep, block: Block, pairs: Sequence[Pairs]) -> None:
        self.step, self.block = step, block
        self._set(pairs)

    def _set(self, pairs: Sequence[Pairs]) -> None:
        self.pairs = [(container, left, pa.array(right)) for container, left, right in pairs if len(left)]
        lefts = [left for _, left, _ in self.pairs]
        self.left = pa.array(lefts[0] if len(lefts) == 1 else np.concatenate(lefts)) if lefts else pa.array([], pa.int32())
        self.rows = len(self.left)
        self.gathered: dict[str, pa.Array] = {}

    def keep(self, mask: Bools | None) -> None:
        if mask is None or mask.all():
            return
        start, kept = 0, []
        for container, left, right in self.pairs:
            part = mask[start : start + len(left)]
            kept.append(Pairs(container, left[part], np.asarray(right)[part]))
            start += len(left)
        self._set(kept)

    def column(self, attribute: Attribute) -> pa.Array:
        name = str(attribute)
        if name not in self.gathered:
            if attribute.relation in self.step.adds:
                self.gathered[name] = _concat([take(container.column(attribute), right) for container, _, right in self.pairs])
            else:
                self.gathered[name] = self.from_left(name)
        return self.gathered[name]

    def from_left(self, name: str) -> pa.Array:
        return take(self.block.columns[name], self.left)

    def from_right(self, name: str) -> pa.Array:
        return _concat([take(container.block.columns[name], right) for container, _, right in self.pairs])

    @property
    def is_base(self) -> bool:
        """Whether tuples of a stream are matched, rather than intermediate results."""
        return self.pairs[0][0].copy.is_base

    @property
    def is_table(self) -> bool:
        """Whether rows of a table are matched: they change nothing of when a result came, or of how long it is valid."""
        return self.pairs[0][0].copy.table is not None


def _gather(plan: LoadedPlan, step: ProbeStep, matches: _Matches) -> Block:
    """The columns that the results carry on."""
    columns: dict[str, pa.Array] = {ARRIVAL: matches.from_left(ARRIVAL)}
    if matches.is_table:
        names = [EARLIEST] if plan.starts else []
        names += [LATEST, DEADLINE, *map(part_event_time, step.part_times)] if plan.timed else []
        columns |= {name: matches.from_left(name) for name in names}
    elif plan.starts:
        right = matches.from_right(ARRIVAL if matches.is_base else EARLIEST)
        columns[EARLIEST] = pc.min_element_wise(matches.from_left(EARLIEST), right)
    if plan.timed and not matches.is_table:
        columns |= _time_columns(step, matches)
    for name in step.left:
        columns[name] = matches.gathered[name] if name in matches.gathered else matches.from_left(name)
    for attribute in step.right:
        columns[str(attribute)] = matches.column(attribute)
    return Block(matches.rows, columns)


def _time_columns(step: ProbeStep, matches: _Matches) -> dict[str, pa.Array]:
    """The latest event time and the deadline of the results, and the event times of their parts where they are stored later."""
    if matches.is_base:
        event_times = matches.from_right(EVENT_TIME)
        latest = ints(event_times)
        deadline = deadlines(latest, step.window)
    else:
        event_times = None
        latest, deadline = ints(matches.from_right(LATEST)), ints(matches.from_right(DEADLINE))
    columns = {
        LATEST: pa.array(np.maximum(ints(matches.from_left(LATEST)), latest)),
        DEADLINE: pa.array(np.minimum(ints(matches.from_left(DEADLINE)), deadline)),
    }
    for relation in step.part_times:
        columns[part_event_time(relation)] = _part_time(step, matches, relation, event_times)
    return columns


def _part_time(step: ProbeStep, matches: _Matches, relation: Relation, event_times: pa.Array | None) -> pa.Array:
    if relation not in step.adds:
        return matches.from_left(part_event_time(relation))
    return event_times if event_times is not None else matches.from_right(part_event_time(relation))


def _concat(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
