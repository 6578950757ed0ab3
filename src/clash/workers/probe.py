"""One step of a probe order: a block of partial results meets a store.

Invariant: a match is made iff the stored row came before the probing tuple, in the total order of (arrival, number). Where everything in
a container came before everything that probes, as with all batches but this one, no numbers are compared. A piece that goes on is
bounded, however much the join multiplies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from clash.columnar.index import Checks, probe, scan
from clash.columnar.key_words import Words, key_words, same
from clash.expressions import holds
from clash.model.relation import Attribute, Relation
from clash.columnar.block import ARRIVAL, DEADLINE, EARLIEST, LATEST, NUMBER_BITS, TAU, Block, deadlines, ints, part_tau, take
from clash.workers.program import Program, Step
from clash.workers.stores import Stored

Rows = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


def probe_step(program: Program, step: Step, block: Block, stored: Sequence[Stored], piece: int) -> Iterator[Block]:
    """The results of `block` at the step, in pieces of about `piece` rows."""
    if not block.rows:
        return
    first = int(block.ints(ARRIVAL).min()) >> NUMBER_BITS << NUMBER_BITS  # a stored tuple may take part under a larger number
    words = None
    if step.keys:
        words = key_words([block.columns[str(key.bound)] for key in step.keys], [key.type for key in step.keys], program.timezone)
    found, total = list[tuple[Stored, Rows, Rows]](), 0
    for container in stored:
        checks = _checks(program, step, block, container, first)
        if checks is None:
            continue
        resume: tuple[int, int] | None = (0, 0)
        while resume is not None:
            left, right, resume = _find(step, container, block, words, checks, resume, piece - total)
            if len(left):
                found.append((container, left, right))
                total += len(left)
            if total >= piece:
                yield from _joined(program, step, block, words, found)
                found, total = [], 0
    yield from _joined(program, step, block, words, found)


def _find(step: Step, container: Stored, block: Block, words: Words | None, checks: Checks, resume: tuple[int, int], limit: int) -> Any:
    if words is None or step.path is None:
        return scan(block.rows, container.block.rows, checks, resume, limit)
    return probe(container.index(step.path), words.words, words.valid, checks, resume, limit)


def _checks(program: Program, step: Step, block: Block, container: Stored, first: int) -> Checks | None:
    """What the kernel compares beside the key; None if no row of the container can match."""
    arrival_probe = arrival_stored = latest_probe = deadline_probe = latest_stored = deadline_stored = None
    record, rule = container.record, step.rule
    if record.last < rule.since or (rule.before is not None and record.oldest >= rule.before):
        return None
    if record.last >= first:
        arrival_probe, arrival_stored = block.ints(ARRIVAL), container.ints(ARRIVAL)
    if program.timed:
        latest_probe, deadline_probe = block.ints(LATEST), block.ints(DEADLINE)
        base = step.copy.store.join is None
        latest_stored, deadline_stored = container.ints(TAU if base else LATEST), container.ints(TAU if base else DEADLINE)
        if base:
            (low, high), *_ = record.taus
            if high + step.window < latest_probe.min() or low > deadline_probe.max():
                return None
    return Checks(arrival_probe, arrival_stored, step.number, latest_probe, deadline_probe, latest_stored, deadline_stored, step.window)


class _Matches:
    """Pairs of rows, and the columns that are gathered for them when somebody asks."""

    def __init__(self, program: Program, step: Step, block: Block, found: Sequence[tuple[Stored, Rows, Rows]]) -> None:
        self.program, self.step, self.block = program, step, block
        self._set(found)

    def _set(self, found: Sequence[tuple[Stored, Rows, Rows]]) -> None:
        self.found = [(container, left, pa.array(right)) for container, left, right in found if len(left)]
        lefts = [left for _, left, _ in self.found]
        self.left = pa.array(lefts[0] if len(lefts) == 1 else np.concatenate(lefts)) if lefts else pa.array([], pa.int32())
        self.rows = len(self.left)
        self.gathered: dict[str, pa.Array] = {}

    def keep(self, mask: Bools | None) -> None:
        if mask is None or mask.all():
            return
        start, kept = 0, []
        for container, left, right in self.found:
            part = mask[start : start + len(left)]
            kept.append((container, left[part], np.asarray(right)[part]))
            start += len(left)
        self._set(kept)

    def column(self, attribute: Attribute) -> pa.Array:
        name = str(attribute)
        if name not in self.gathered:
            if attribute.relation in self.step.rule.adds.relations:
                self.gathered[name] = _concat([take(c.column(attribute), right) for c, _, right in self.found])
            else:
                self.gathered[name] = take(self.block.columns[name], self.left)
        return self.gathered[name]

    def of_left(self, name: str) -> pa.Array:
        return take(self.block.columns[name], self.left)

    def of_right(self, name: str) -> pa.Array:
        return _concat([take(c.block.columns[name], right) for c, _, right in self.found])


def _joined(program: Program, step: Step, block: Block, words: Words | None, found: Sequence[tuple[Stored, Rows, Rows]]) -> Iterator[Block]:
    if not found:
        return
    matches = _Matches(program, step, block, found)
    matches.keep(_mine(step, found))
    if words is not None and not words.exact:
        for key in step.keys:
            if matches.rows:
                matches.keep(same(matches.column(key.bound), matches.column(key.stored), key.type, program.timezone))
    for conditions in (step.checks, step.rule.residuals):
        if matches.rows and conditions:
            matches.keep(holds(conditions, lambda col: matches.column(Attribute(col.relation, col.column)), matches.rows, program.timezone))
    if matches.rows:
        yield _gather(program, step, matches)


def _mine(step: Step, found: Sequence[tuple[Stored, Rows, Rows]]) -> Bools | None:
    """Which matches are this branch's, and this worker's."""
    masks, some = [], False
    for container, left, right in found:
        mask = container.within(step.rule.since, step.rule.before, right)
        if step.spread:
            mine = container.mine(right)
            mask = mine if mask is None else mask if mine is None else mask & mine
        some = some or mask is not None
        masks.append(np.ones(len(left), np.bool_) if mask is None else mask)
    return np.concatenate(masks) if some else None


def _gather(program: Program, step: Step, matches: _Matches) -> Block:
    columns: dict[str, pa.Array] = {ARRIVAL: matches.of_left(ARRIVAL)}
    if program.starts:
        right = matches.of_right(ARRIVAL if step.copy.store.join is None else EARLIEST)
        columns[EARLIEST] = pc.min_element_wise(matches.of_left(EARLIEST), right)
    if program.timed:
        columns |= _times(step, matches)
    for name in step.left:
        columns[name] = matches.gathered[name] if name in matches.gathered else matches.of_left(name)
    for attribute in step.right:
        columns[str(attribute)] = matches.column(attribute)
    return Block(matches.rows, columns)


def _times(step: Step, matches: _Matches) -> dict[str, pa.Array]:
    block = Block(matches.rows, {name: matches.of_left(name) for name in (LATEST, DEADLINE)})
    if step.copy.store.join is None:
        tau = matches.of_right(TAU)
        taus = ints(tau)
        stored = taus, deadlines(taus, step.window)
    else:
        right = Block(matches.rows, {name: matches.of_right(name) for name in (LATEST, DEADLINE)})
        tau, stored = None, (right.ints(LATEST), right.ints(DEADLINE))
    found = {
        LATEST: pa.array(np.maximum(block.ints(LATEST), stored[0])),
        DEADLINE: pa.array(np.minimum(block.ints(DEADLINE), stored[1])),
    }
    for relation in step.taus:
        found[part_tau(relation)] = _tau(step, matches, relation, tau)
    return found


def _tau(step: Step, matches: _Matches, relation: Relation, tau: pa.Array | None) -> pa.Array:
    if relation not in step.rule.adds.relations:
        return matches.of_left(part_tau(relation))
    return tau if tau is not None else matches.of_right(part_tau(relation))


def _concat(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
