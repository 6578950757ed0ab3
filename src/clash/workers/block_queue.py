"""Blocks that wait for a later phase of the round, or for everything to have arrived.

Invariant: blocks come out as they went in. Once they take up much memory, further ones are written to a file that has no name any
more and are mapped from there: the system may then drop their pages, so a join that multiplies does not exhaust memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pyarrow as pa

from clash.columnar.block import Block, concat, of_batch


class Waiting:
    """By phase and edge, in the order in which they came."""

    def __init__(self, limit: int, piece: int) -> None:
        self.limit, self.piece, self.held = limit, piece, 0
        self.phases: dict[int, dict[str, list[Block]]] = {}

    def __bool__(self) -> bool:
        return bool(self.phases)

    def add(self, phase: int, label: str, block: Block) -> None:
        self.phases.setdefault(phase, {}).setdefault(label, []).append(self.kept(block))

    def kept(self, block: Block) -> Block:
        size = sum(column.nbytes for column in block.columns.values())
        if self.held + size > self.limit:
            return on_disk(block)
        self.held += size
        return block

    def next(self) -> tuple[int, dict[str, list[Block]]]:
        """The first phase, with all that waits for it."""
        phase = min(self.phases)
        return phase, self.phases.pop(phase)

    def pieces(self, blocks: list[Block]) -> Iterator[Block]:
        """Small blocks together: a probe of many rows costs less than many probes of few."""
        group: list[Block] = []
        rows = 0
        for block in blocks:
            if group and rows + block.rows > self.piece:
                yield concat(group)
                group, rows = [], 0
            group.append(block)
            rows += block.rows
        if group:
            yield concat(group)


def on_disk(block: Block) -> Block:
    """The same block, mapped from a file that goes when the block goes."""
    schema = pa.schema([(name, column.type) for name, column in block.columns.items()])
    with tempfile.NamedTemporaryFile(prefix="clash-") as file:
        with pa.ipc.new_stream(file.name, schema) as writer:
            writer.write_batch(block.batch(schema))
        with pa.memory_map(file.name) as mapped:
            return of_batch(pa.ipc.open_stream(mapped).read_next_batch())
