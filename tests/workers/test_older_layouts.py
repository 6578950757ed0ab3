"""Containers of an older layout: every worker finds exactly the rows that today's layout gives it, whatever both layouts are."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from clash.columnar.slots import hot_rows, key_hashes, slots
from clash.model.layout import Layout
from clash.protocol.containers import ContainerRecord, LayoutVersion
from clash.workers.older_layouts import containers_for_worker
from clash.workers.stores import WorkerStores

from ..topology.plans import by_hand, layout
from .batches import Checkpoint, arrival, checkpoint, new_uri, seen, stored, stream

HOT = "a+" + "+".join(sorted((str(one) for one in key_hashes(pa.array([1, 3, 6]), "UTC")[0]), key=int))
LAYOUTS = ("a", "b", "~", "1", "*", HOT)
SEVERAL = ("a *", "* a", "b ~", "1 a", f"{HOT} a")  # as many copies
WORKERS = (1, 2, 3, 4, 6)
NUMBERS = range(40)
URI = new_uri()
A = [number % 7 if number % 5 else None for number in NUMBERS]  # a NULL is in slot 0
B = [number * number for number in NUMBERS]


@lru_cache
def laid_out(layouts: str, workers: int, generation: int) -> Checkpoint:
    text = {"q": "SELECT R.v, S.v AS w FROM R JOIN S ON R.a = S.a AND R.b = S.b"}
    plan = by_hand(text, ["q: R S", "q: S R"], {"R": "a", "S": layouts}, workers, [stream("R"), stream("S")])
    return checkpoint(plan, uri=URI, generation=generation)


def owners(today: Layout, workers: int) -> list[set[int]]:
    """Of each row, the workers that have it under a layout: the definition."""
    if today.kind != "hash":
        return [set(range(workers)) if today.kind == "all" else {0} for _ in NUMBERS]
    if today.column is None:
        return [{number % workers} for number in NUMBERS]
    block = stored(laid_out("a", 1, 1), "s_S", NUMBERS, a=A, b=B)
    keys = block.columns[f"S.{today.column}"]
    hot = hot_rows(keys, today.hot, "UTC").tolist() if today.hot else [False] * len(NUMBERS)
    return [{number % workers if hot[number] else int(slot)} for number, slot in enumerate(slots(keys, workers, "UTC"))]


@lru_cache
def written(layouts: str, workers: int) -> tuple[ContainerRecord, ...]:
    """The rows in two containers per copy and slot, written in generation 1."""
    found = laid_out(layouts, workers, 1)
    block = stored(found, "s_S", NUMBERS, a=A, b=B)
    records: list[ContainerRecord] = []
    for copy, worker, half in product(found.topology.store["s_S"].layouts, range(workers), (0, 1)):
        number = found.topology.store["s_S"].layouts.index(copy)
        stores = WorkerStores(found.spec(), worker, 1)
        at = [n for n, places in zip(NUMBERS, owners(copy, workers), strict=True) if worker in places and n // 20 == half]
        stores.add(found.copy("s_S", number), block.take(np.array(at, np.int32)))
        records += stores.close().added
    return tuple(records)


def rows_of(today: Checkpoint, worker: int, old: tuple[ContainerRecord, ...], version: LayoutVersion) -> list[int]:
    spec = today.spec(*old, older={"s_S": (version,)})
    return seen(WorkerStores(spec, worker, 1), today.copy("s_S"))


@pytest.mark.parametrize("today", LAYOUTS)
@pytest.mark.parametrize("before", [*LAYOUTS, *SEVERAL])
def test_every_worker_finds_the_rows_that_are_its_own_today(before: str, today: str) -> None:
    for old_workers, workers in product(WORKERS, WORKERS):
        now, records = laid_out(today, workers, 2), written(before, old_workers)
        version = laid_out(before, old_workers, 1).version("s_S")
        expected = owners(layout(today), workers)
        for worker in range(workers):
            own = [number for number in NUMBERS if worker in expected[number]]
            assert rows_of(now, worker, records, version) == own, f"{old_workers} to {workers} workers, worker {worker}"


def test_today_s_containers_and_those_of_several_older_layouts_are_read_together() -> None:
    first, second = laid_out("b", 3, 1), laid_out("1", 2, 2)
    now = laid_out("a", 2, 3)
    old = [*written("b", 3), second.write("s_S", stored(second, "s_S", [40], a=0))]
    new = [now.write("s_S", stored(now, "s_S", [41 + worker]), worker=worker) for worker in range(2)]
    spec = now.spec(*new, *old, older={"s_S": (first.version("s_S"), second.version("s_S"))})
    by_worker = [seen(WorkerStores(spec, worker, 1), now.copy("s_S")) for worker in range(2)]
    assert sorted(by_worker[0] + by_worker[1]) == list(range(43))
    stores = WorkerStores(spec, 0, 1)
    generations = [container.record.generation for container in stores.open(now.copy("s_S"))]
    assert generations == sorted(generations)  # the oldest layout first


def test_containers_of_older_layouts_are_never_merged() -> None:
    now = laid_out("a", 1, 2)
    version = laid_out("b", 2, 1).version("s_S")
    spec = now.spec(*written("b", 2), older={"s_S": (version,)})
    stores = WorkerStores(spec, 0, 1)
    stores.add(now.copy("s_S"), stored(now, "s_S", range(40, 100)))
    assert seen(stores, now.copy("s_S")) == list(range(100))
    changes = stores.close()
    assert (len(changes.added), changes.added[0].rows, changes.removed) == (1, 60, ())


# ---- which containers are opened ---------------------------------------------------------------------------------


def opened(before: str, slots: int, today: str, workers: int, worker: int) -> list[tuple[int, int, bool]]:
    """(copy, slot, whether rows of others are among its rows) of the containers that a worker opens."""
    version = LayoutVersion(1, tuple(map(layout, before.split())), slots)
    records = [
        ContainerRecord(f"{copy}-{slot}", "s_S", copy, 1, slot, 1, 1, 0, 0, ((0, 0),))
        for copy in range(len(version.layouts))
        for slot in range(slots)
    ]
    found = containers_for_worker(version, layout(today), workers, worker, records)
    return [(record.copy, record.slot, mixed) for record, mixed in found]


@pytest.mark.parametrize(
    ("before", "slots", "today", "workers", "expected"),
    [
        ("a", 4, "a", 2, [[0, 1], [2, 3]]),  # hash ranges: neighbours
        ("a", 2, "a", 4, [[0], [0], [1], [1]]),
        ("a", 3, "a", 2, [[0, 1], [1, 2]]),
        ("a", 3, "b", 2, [[0, 1, 2], [0, 1, 2]]),
        ("~", 3, "~", 2, [[0, 1, 2], [0, 1, 2]]),  # arrivals are dealt out, not divided into ranges
        (HOT, 4, HOT, 2, [[0, 1, 2, 3], [0, 1, 2, 3]]),  # rows with hot keys are in any slot
        (HOT, 4, "a", 2, [[0, 1, 2, 3], [0, 1, 2, 3]]),
        ("a", 4, HOT, 2, [[0, 1, 2, 3], [0, 1, 2, 3]]),
        ("a", 3, "1", 2, [[0, 1, 2], []]),
        ("a", 3, "*", 2, [[0, 1, 2], [0, 1, 2]]),
        ("*", 3, "a", 4, [[0], [1], [2], [0]]),  # every slot has all rows; readers are spread over them
        ("*", 2, "*", 3, [[0], [1], [0]]),
    ],
)
def test_a_worker_opens_only_slots_that_may_have_rows_of_its_own(
    before: str, slots: int, today: str, workers: int, expected: list[list[int]]
) -> None:
    assert [[slot for _, slot, _ in opened(before, slots, today, workers, worker)] for worker in range(workers)] == expected


@pytest.mark.parametrize(
    ("before", "slots", "today", "workers", "mixed"),
    [
        ("a", 4, "a", 2, False),
        ("a", 4, "a", 4, False),
        ("a", 3, "a", 2, True),
        ("a", 4, "b", 2, True),
        ("a", 4, "b", 1, False),  # the only worker has all rows
        ("a", 4, "*", 2, False),
        ("a", 4, "1", 2, False),
        ("*", 4, "a", 2, True),
    ],
)
def test_rows_are_checked_only_where_those_of_other_workers_are_among_them(
    before: str, slots: int, today: str, workers: int, mixed: bool
) -> None:
    assert {marked for _, _, marked in opened(before, slots, today, workers, 0)} == {mixed}


@pytest.mark.parametrize(("today", "copy"), [("a", 0), ("*", 1), ("b", 0), ("1", 0)])
def test_of_several_copies_one_is_read(today: str, copy: int) -> None:
    """The one of today's layout, if there is one."""
    assert {number for number, _, _ in opened("a *", 3, today, 3, 0)} == {copy}


# ---- rows that count ---------------------------------------------------------------------------------------------


def test_rows_that_were_moved_do_not_count() -> None:
    now, old = laid_out("a", 2, 2), laid_out("b", 3, 1)
    version = old.version("s_S")
    records = tuple(record.counting_from(arrival(25)) for record in written("b", 3))
    assert sorted(rows_of(now, 0, records, version) + rows_of(now, 1, records, version)) == list(range(25, 40))
