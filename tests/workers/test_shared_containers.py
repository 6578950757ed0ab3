"""Containers that one task wrote for all workers: a worker finds exactly the rows that the layout gives it, and one task all of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from clash.model.layout import ONE
from clash.protocol.containers import ALL_SLOTS, ContainerRecord, first_copies
from clash.workers.stores import WorkerStores

from .batches import Checkpoint, after, seen, stored
from .test_older_layouts import LAYOUTS, NUMBERS, SEVERAL, A, B, laid_out, owners

Records = tuple[ContainerRecord, ...]


def add_by_workers(found: Checkpoint, records: Records, numbers: range) -> Records:
    """The records after a batch of several tasks."""
    block = stored(found, "s_S", NUMBERS, a=A, b=B)
    for worker in range(found.topology.workers):
        stores = WorkerStores(found.spec(*records), worker, 1)
        for number, layout in enumerate(found.topology.store["s_S"].layouts):
            places = owners(layout, found.topology.workers)
            at = [n for n in numbers if worker in places[n]]
            stores.add(found.copy("s_S", number), block.take(np.array(at, np.int32)))
        changes = stores.close()
        assert all(record.slot == worker for record in changes.added)
        records = after(records, changes)
    return records


def add_by_one_task(found: Checkpoint, records: Records, numbers: range) -> Records:
    block = stored(found, "s_S", NUMBERS, a=A, b=B)
    stores = WorkerStores(found.spec(*records, is_one_task=True), 0, 1)
    for number in range(len(found.topology.store["s_S"].layouts)):
        stores.add(found.copy("s_S", number), block.take(np.array(numbers, np.int32)))
    changes = stores.close()
    layouts = found.topology.store["s_S"].layouts
    assert all(record.slot == (0 if layouts[record.copy] == ONE else ALL_SLOTS) for record in changes.added)
    return after(records, changes)


def check(written: Checkpoint, found: Checkpoint, records: Records, count: int) -> None:
    """Every worker of `found` sees its rows of the first `count`, once, and one task sees all of them."""
    store, older = found.topology.store["s_S"], {} if written is found else {"s_S": [written.version("s_S")]}
    for number, layout in enumerate(store.layouts):
        places = owners(layout, found.topology.workers)
        for worker in range(found.topology.workers):
            stores = WorkerStores(found.spec(*records, older=older), worker, 1)
            assert seen(stores, found.copy("s_S", number)) == [n for n in range(count) if worker in places[n]]
        whole = WorkerStores(found.spec(*records, older=older, is_one_task=True), 0, 1)
        assert seen(whole, found.copy("s_S", number)) == list(range(count))
    once = first_copies(records, {"s_S": [written.version("s_S")]})
    assert sum(record.rows for record in once) == count


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("layouts", [*LAYOUTS, *SEVERAL])
def test_batches_of_one_task_and_of_several_alternate(layouts: str, workers: int) -> None:
    found, random = laid_out(layouts, workers, 1), Random(f"{layouts}{workers}")
    records: Records = ()
    begin = 0
    while begin < len(NUMBERS):
        end = min(len(NUMBERS), begin + random.randrange(1, 9))
        add = random.choice((add_by_one_task, add_by_workers))
        records, begin = add(found, records, range(begin, end)), end
        check(found, found, records, end)


@pytest.mark.parametrize("today", ["a", "b", "~", "1", "*", "b a"])
@pytest.mark.parametrize("layouts", [*LAYOUTS, "* a"])
def test_they_are_read_under_another_layout(layouts: str, today: str) -> None:
    before, now = laid_out(layouts, 2, 1), laid_out(today, 3, 2)
    records = add_by_one_task(before, add_by_workers(before, (), range(25)), range(25, 40))
    check(before, now, records, 40)


def test_one_task_merges_what_workers_wrote_but_no_worker_what_all_share() -> None:
    found = laid_out("a", 2, 1)
    apart = add_by_workers(found, (), range(10))
    shared = add_by_one_task(found, apart, range(10, 30))
    assert [(record.slot, record.rows) for record in shared] == [(ALL_SLOTS, 30)]
    later = add_by_workers(found, shared, range(30, 40))
    assert sorted(record.slot for record in later) == [ALL_SLOTS, 0, 1]


def test_a_replicated_row_stays_where_a_worker_has_it() -> None:
    """If one task took it over from the first worker, the others would find it twice."""
    found = laid_out("*", 2, 1)
    records = add_by_one_task(found, add_by_workers(found, (), range(10)), range(10, 30))
    assert sorted((record.slot, record.rows) for record in records) == [(ALL_SLOTS, 20), (0, 10), (1, 10)]


def test_with_one_worker_all_containers_are_its_own() -> None:
    found = laid_out("a", 1, 1)
    stores = WorkerStores(replace(found.spec(), is_one_task=True), 0, 1)
    stores.add(found.copy("s_S"), stored(found, "s_S", [1], a=1, b=1))
    assert [record.slot for record in stores.close().added] == [0]
