"""Blocks that wait for a later phase of the round, or for everything to have arrived.

Invariant: blocks come out as they went in. Once they take up much memory, further ones are written to a file that is deleted at once, and
mapped from it: the system may then drop their pages, so a join that multiplies does not exhaust memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pyarrow as pa

from clash.columnar.block import Block, concat, from_batch


class BlockQueue:
    """Blocks by phase and edge, in the order in which they came. `memory`: bytes that it may hold; `piece`: rows of a block, about."""

    def __init__(self, memory: int, piece: int) -> None:
        self.memory, self.piece, self.used = memory, piece, 0
        self.phases: dict[int, dict[str, list[Block]]] = {}

    def __bool__(self) -> bool:
        return bool(self.phases)

    def add(self, phase: int, label: str, block: Block) -> None:
        self.phases.setdefault(phase, {}).setdefault(label, []).append(self.hold(block))

    def hold(self, block: Block) -> Block:
        """The block itself, or a copy on disk where memory is used up."""
        if self.used + block.nbytes > self.memory:
            return spilled(block)
        self.used += block.nbytes
        return block

    def next_phase(self) -> tuple[int, dict[str, list[Block]]]:
        """Removes the first phase, with all blocks that wait for it."""
        phase = min(self.phases)
        return phase, self.phases.pop(phase)

    def pieces(self, blocks: list[Block]) -> Iterator[Block]:
        """Small blocks joined: one probe of many rows costs less than many probes of few."""
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


def spilled(block: Block) -> Block:
    """The same block, mapped from a file that is gone when the block is."""
    schema = pa.schema([(name, column.type) for name, column in block.columns.items()])
    with tempfile.NamedTemporaryFile(prefix="clash-") as file:
        with pa.ipc.new_stream(file.name, schema) as writer:
            writer.write_batch(block.to_batch(schema))
        with pa.memory_map(file.name) as mapped:
            return from_batch(pa.ipc.open_stream(mapped).read_next_batch())
