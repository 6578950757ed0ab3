"""Rows of older layouts that a batch moves: each worker takes its own, and in their old containers they stop to count."""

from __future__ import annotations

from itertools import product

import pytest

from clash.protocol.batch import BatchSpec
from clash.protocol.containers import ContainerRecord, RelayoutRange, after_relayout
from clash.protocol.reports import StoreChanges
from clash.workers.stores import WorkerStores

from ..topology.plans import by_hand, layout
from .batches import SECOND, Checkpoint, after, arrival, arrivals, checkpoint, seen, stored, stream
from .test_older_layouts import LAYOUTS, NUMBERS, laid_out, owners, written

MOVED = 17  # rows that arrived before are moved


def moving(before: str, old_workers: int, today: str, workers: int) -> tuple[Checkpoint, BatchSpec]:
    now, version = laid_out(today, workers, 2), laid_out(before, old_workers, 1).version("s_S")
    relayout = (RelayoutRange("s_S", 1, arrival(MOVED)),)
    return now, now.spec(*written(before, old_workers), older={"s_S": (version,)}, relayout=relayout)


def committed(spec: BatchSpec, all_changes: list[StoreChanges]) -> list[ContainerRecord]:
    """The containers after the batch: as the coordinator commits them."""
    old = [rest for record in spec.containers if (rest := after_relayout(record, spec.relayout)) is not None]
    return [*old, *(record for changes in all_changes for record in changes.added)]


@pytest.mark.parametrize("today", LAYOUTS)
@pytest.mark.parametrize("before", [*LAYOUTS, "a *", "b ~"])
def test_each_row_moves_once_and_its_old_copy_stops_to_count(before: str, today: str) -> None:
    for old_workers, workers in product((1, 2, 3), (1, 2, 4)):
        now, spec = moving(before, old_workers, today, workers)
        expected = owners(layout(today), workers)
        own = [[number for number in NUMBERS if worker in expected[number]] for worker in range(workers)]
        tasks = [WorkerStores(spec, worker, 1) for worker in range(workers)]
        assert [seen(task, now.copy("s_S")) for task in tasks] == own  # in the batch that moves them
        records = committed(spec, [task.close() for task in tasks])
        later = now.spec(*records, older={"s_S": spec.layouts["s_S"][:-1]})
        for worker in range(workers):
            containers = WorkerStores(later, worker, 1).open(now.copy("s_S"))
            moved = sorted(number for c in containers if c.record.generation == 2 for number in arrivals(c))
            rest = sorted(number for c in containers if c.record.generation == 1 for number in arrivals(c))
            assert moved == [number for number in own[worker] if number < MOVED]
            assert rest == [number for number in own[worker] if number >= MOVED]


def test_what_moved_is_removed_by_no_worker() -> None:
    """The coordinator lets old containers go, when no row of them counts: all workers read them."""
    _, spec = moving("b", 2, "a", 2)
    assert all(WorkerStores(spec, worker, 1).close().removed == () for worker in range(2))


def test_rows_move_in_the_first_round_only() -> None:
    now, spec = moving("b", 2, "a", 2)
    changes = WorkerStores(spec, 0, 1).close()
    second = WorkerStores(spec, 0, 2)
    second.apply(changes)
    both = WorkerStores(spec, 0, 1)
    assert seen(second, now.copy("s_S")) == seen(both, now.copy("s_S"))
    assert second.close() == StoreChanges(2, (), ())


def test_moved_rows_and_what_arrives_are_one_container_where_nothing_expires() -> None:
    now, spec = moving("b", 2, "a", 1)
    stores = WorkerStores(spec, 0, 1)
    stores.add(now.copy("s_S"), stored(now, "s_S", range(40, 44)))
    (record,) = stores.close().added
    assert (record.first_arrival, record.last_arrival, record.rows) == (arrival(0), arrival(43), MOVED + 4)


# ---- where rows expire -------------------------------------------------------------------------------------------


def windowed(layouts: str, uri: str | None, generation: int) -> Checkpoint:
    """Rows expire 80 seconds after their event time; what expires more than 10 seconds apart is not in one container."""
    streams = [stream("R", "80 seconds"), stream("S", "80 seconds")]
    text = {"q": "SELECT R.v, S.v AS w FROM R JOIN S ON R.a = S.a AND R.b = S.b"}
    return checkpoint(by_hand(text, ["q: R S", "q: S R"], {"R": "a", "S": layouts}, 1, streams), uri=uri, generation=generation)


def relaid(times: list[int]) -> tuple[Checkpoint, BatchSpec, list[ContainerRecord]]:
    old = windowed("b", None, 1)
    records = [old.write("s_S", stored(old, "s_S", [number], time=time)) for number, time in enumerate(times)]
    now = windowed("a", old.uri, 2)
    relayout = (RelayoutRange("s_S", 1, arrival(len(times))),)
    return now, now.spec(*records, older={"s_S": (old.version("s_S"),)}, relayout=relayout), records


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0, 10, 5], [[0, 1, 2]]),
        ([0, 30, 5, 25], [[0, 2], [1, 3]]),  # together by expiry, not by arrival
        ([0, 11, 22], [[0], [1], [2]]),
        ([0, 8, 16], [[0, 1], [2]]),  # measured from the first of a container
    ],
)
def test_rows_that_expire_together_move_into_one_container(times: list[int], expected: list[list[int]]) -> None:
    now, spec, _ = relaid(times)
    stores = WorkerStores(spec, 0, 1)
    assert sorted(arrivals(container) for container in stores.open(now.copy("s_S"))) == expected


def test_moved_rows_that_expire_early_stay_apart_from_what_arrives() -> None:
    now, spec, _ = relaid([0, 1])
    stores = WorkerStores(spec, 0, 1)
    stores.add(now.copy("s_S"), stored(now, "s_S", [2, 3, 4], time=50))
    changes = stores.close()
    assert [(record.rows, record.time_ranges) for record in changes.added] == [
        (2, ((0, SECOND),)),
        (3, ((50 * SECOND, 50 * SECOND),)),
    ]


def test_what_is_merged_in_the_round_that_wrote_it_is_reported_once() -> None:
    """A container that was written and merged in the same round is neither added nor live any more."""
    now, spec, old = relaid([0, 1])
    stores = WorkerStores(spec, 0, 1)
    stores.add(now.copy("s_S"), stored(now, "s_S", [2, 3, 4], time=2))
    changes = stores.close()
    assert [record.rows for record in changes.added] == [5]
    assert set(changes.removed).isdisjoint(record.path for record in old)
    assert [record.rows for record in after((), changes)] == [5]
