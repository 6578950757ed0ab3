"""Blocks that wait come out as they went in, from memory or from disk."""

from __future__ import annotations

import pyarrow as pa

from clash.columnar.block import Block
from clash.workers.block_queue import BlockQueue, spilled

BLOCK = Block(3, {"#arrival": pa.array([1, 2, 3], pa.int64()), "R.a": pa.array(["x", None, "z"]), "R.b": pa.array([[1], [], None])})


def same(one: Block, other: Block) -> bool:
    return one.rows == other.rows and all(one.columns[name].equals(other.columns[name]) for name in one.columns)


def test_a_block_on_disk_is_the_same_block() -> None:
    assert same(spilled(BLOCK), BLOCK)
    assert same(spilled(BLOCK.slice(1, 2)), BLOCK.slice(1, 2))
    empty = BLOCK.slice(0, 0)
    assert same(spilled(empty), empty)


def test_phases_come_in_order_and_memory_is_bounded() -> None:
    queue = BlockQueue(memory=100, piece=4)
    for phase in (2, 0, 1, 0):
        queue.add(phase, f"e{phase}", BLOCK)
    assert queue.used <= 100
    phases = []
    while queue:
        phase, edges = queue.next_phase()
        phases.append((phase, sum(block.rows for blocks in edges.values() for block in blocks)))
    assert phases == [(0, 6), (1, 3), (2, 3)]


def test_small_blocks_are_probed_together() -> None:
    queue = BlockQueue(memory=1 << 20, piece=7)
    assert [block.rows for block in queue.pieces([BLOCK] * 5)] == [6, 6, 3]
    assert list(queue.pieces([])) == []
