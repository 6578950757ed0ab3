"""The stores of a worker in one round: what arrives becomes one container, which is merged with those before it where that pays."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clash
from clash.model.block_columns import ARRIVAL, EVENT_TIME
from clash.protocol.containers import ContainerRecord
from clash.protocol.reports import StoreChanges
from clash.state.container import read_container
from clash.workers import stored_container
from clash.workers import stores as stores_module
from clash.workers.merge_policy import MergePolicy
from clash.workers.stores import WorkerStores

from .batches import SECOND, Checkpoint, after, arrival, arrivals, checkpoint, new_uri, seen, stored, stream

JOIN = "SELECT R.v, S.v AS w FROM R JOIN S ON R.a = S.a"
WIDER = "SELECT R.v, S.v AS w, S.s FROM R JOIN S ON R.b = S.b"


def one_worker(text: str = JOIN, window: str | None = None, uri: str | None = None, workers: int = 1) -> Checkpoint:
    plan = clash.optimize({"q": text}, streams=[stream("R", window), stream("S", window)], workers=workers, time_limit=0.0)
    return checkpoint(plan, uri=uri)


@pytest.fixture(scope="module", autouse=True)
def merge_by_twos() -> Iterator[None]:
    """The policy itself is tested in test_merge_policy.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores_module, "merge_policy", lambda spec, store, rows: MergePolicy(0, 2))
        yield


@pytest.fixture(scope="module")
def unbounded() -> Checkpoint:
    return one_worker()


@pytest.fixture(scope="module")
def windowed() -> Checkpoint:
    """Rows expire 80 seconds after their event time; what expires more than 10 seconds apart is not merged."""
    return one_worker(window="80 seconds")


def existing(found: Checkpoint, sizes: list[int], times: list[int] | None = None) -> list[ContainerRecord]:
    """Containers of S with so many rows, one after the other."""
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    times = times or [0] * len(sizes)
    return [found.write("s_S", stored(found, "s_S", range(s, s + n), time=t)) for s, n, t in zip(starts, sizes, times, strict=True)]


def merged(found: Checkpoint, sizes: list[int], new: int, times: list[int] | None = None, time: int = 0, **tuning: int) -> list[int]:
    """Which of the containers, by number, are merged with `new` rows that arrive; all rows are still there, once."""
    containers, total = existing(found, sizes, times), sum(sizes)
    stores = WorkerStores(found.spec(*containers, tuning=tuning), 0, 1)
    stores.add(found.copy("s_S"), stored(found, "s_S", range(total, total + new), time=time))
    assert seen(stores, found.copy("s_S")) == list(range(total + new))
    removed = stores.close().removed
    assert len(removed) == len(set(removed))
    return [at for at, record in enumerate(containers) if record.path in removed]


# ---- what arrives ------------------------------------------------------------------------------------------------


def test_what_arrives_in_a_round_becomes_one_container(unbounded: Checkpoint) -> None:
    stores = WorkerStores(unbounded.spec(), 0, 1)
    for numbers, times in (([4, 7], [5, 9]), ([], []), ([2], [1])):
        stores.add(unbounded.copy("s_S"), stored(unbounded, "s_S", numbers, a=1, time=times))
    changes = stores.close()
    (record,) = changes.added
    assert (changes.round, changes.removed) == (1, ())
    assert (record.store, record.copy, record.generation, record.slot, record.rows) == ("s_S", 0, 1, 0, 3)
    assert (record.first_arrival, record.last_arrival, record.time_ranges) == (arrival(2), arrival(7), ((SECOND, 9 * SECOND),))
    file = read_container(unbounded.storage, record.path, verify=True)
    assert file.batch.column(ARRIVAL).to_pylist() == [arrival(4), arrival(7), arrival(2)]
    assert list(file.indexes) == [path.name for path in unbounded.copy("s_S").paths]
    assert unbounded.storage.size(record.path) == record.bytes


def test_where_nothing_arrives_nothing_is_written(unbounded: Checkpoint) -> None:
    stores = WorkerStores(unbounded.spec(*existing(unbounded, [3])), 0, 1)
    stores.add(unbounded.copy("s_S"), stored(unbounded, "s_S", []))
    assert seen(stores, unbounded.copy("s_S")) == [0, 1, 2]
    assert stores.close() == StoreChanges(1, (), ())


def test_a_probe_sees_what_arrived_in_the_round(unbounded: Checkpoint) -> None:
    stores = WorkerStores(unbounded.spec(*existing(unbounded, [4, 1])), 0, 1)
    stores.add(unbounded.copy("s_S"), stored(unbounded, "s_S", [5]))
    assert [arrivals(container) for container in stores.open(unbounded.copy("s_S"))] == [[0, 1, 2, 3], [4, 5]]
    assert len(stores.close().added) == 1  # the probe wrote it; closing the stores does not write it again


def test_rows_after_a_probe_are_refused(unbounded: Checkpoint) -> None:
    stores = WorkerStores(unbounded.spec(), 0, 1)
    assert stores.open(unbounded.copy("s_S")) == []
    with pytest.raises(AssertionError, match="s_S gets rows after it was probed"):
        stores.add(unbounded.copy("s_S"), stored(unbounded, "s_S", [1]))
    stores.add(unbounded.copy("s_R"), stored(unbounded, "s_R", [1]))  # another store


def test_a_worker_reads_its_own_slot() -> None:
    found = one_worker(workers=2)
    records = [found.write("s_S", stored(found, "s_S", [number]), worker=number % 2) for number in range(4)]
    for worker in range(2):
        assert seen(WorkerStores(found.spec(*records), worker, 1), found.copy("s_S")) == [worker, worker + 2]


# ---- merging -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "new", "expected"),
    [
        ([], 2, []),
        ([3], 2, [0]),
        ([4], 2, []),  # twice as large as what arrives
        ([7, 3], 2, [0, 1]),  # the second one grows the result to five rows, to which seven are not much
        ([11, 3], 2, [1]),
        ([10, 3], 2, [1]),
        ([1, 9, 1], 1, [2]),  # the first would be small enough, but does not come next
        ([1, 1, 1], 5, [0, 1, 2]),
    ],
)
def test_containers_are_merged_unless_much_larger(unbounded: Checkpoint, sizes: list[int], new: int, expected: list[int]) -> None:
    assert merged(unbounded, sizes, new) == expected


@pytest.mark.parametrize(("limit", "expected"), [(4, []), (5, [1]), (7, [1]), (8, [0, 1])])
def test_a_merged_container_has_a_limit(unbounded: Checkpoint, limit: int, expected: list[int]) -> None:
    assert merged(unbounded, [3, 3], 2, merge_rows=limit) == expected


@pytest.mark.parametrize(
    ("times", "time", "expected"),
    [
        ([0, 0], 10, [0, 1]),
        ([0, 0], 11, []),
        ([0, 10], 20, [1]),  # measured from the latest expiry of all that are merged
        ([20, 10], 20, [0, 1]),
        ([40, 30], 20, [0, 1]),  # which may be that of an older container
        ([11, 11], 0, []),  # also where what arrives expires first
    ],
)
def test_rows_that_expire_apart_are_stored_apart(windowed: Checkpoint, times: list[int], time: int, expected: list[int]) -> None:
    assert windowed.topology.store["s_S"].horizon == 80 * SECOND
    assert merged(windowed, [1, 1], 3, times, time) == expected


def test_a_cheap_container_expires_although_more_comes(windowed: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch expires with the one before it, but not with all before it."""
    monkeypatch.setattr(stores_module, "merge_policy", lambda spec, store, rows: MergePolicy(100, 16))
    records: tuple[ContainerRecord, ...] = ()
    for number in range(12):
        stores = WorkerStores(windowed.spec(*records), 0, 1)
        stores.add(windowed.copy("s_S"), stored(windowed, "s_S", [number], time=5 * number))
        records = after(records, stores.close())
    starts = [0, 15 * SECOND, 30 * SECOND, 45 * SECOND]
    assert [(record.rows, record.time_ranges) for record in records] == [(3, ((start, start + 10 * SECOND),)) for start in starts]


def test_where_nothing_expires_event_times_do_not_matter(unbounded: Checkpoint) -> None:
    assert merged(unbounded, [1, 1], 3, [0, 10**6], 0) == [0, 1]


def test_a_container_with_later_rows_is_not_merged(unbounded: Checkpoint) -> None:
    """What arrives may be old, where rows are moved or filled in; containers stay in the order of their last rows."""
    late, early = (unbounded.write("s_S", stored(unbounded, "s_S", [number])) for number in (9, 3))
    stores = WorkerStores(unbounded.spec(late, early), 0, 1)
    stores.add(unbounded.copy("s_S"), stored(unbounded, "s_S", [5]))
    assert [arrivals(container) for container in stores.open(unbounded.copy("s_S"))] == [[3, 5], [9]]
    assert stores.close().removed == (early.path,)


@settings(max_examples=20)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=12))
def test_a_store_has_few_containers_of_falling_sizes(unbounded: Checkpoint, batches: list[int]) -> None:
    records: tuple[ContainerRecord, ...] = ()
    total = 0
    for size in batches:
        stores = WorkerStores(unbounded.spec(*records), 0, 1)
        stores.add(unbounded.copy("s_S"), stored(unbounded, "s_S", range(total, total + size)))
        total += size
        assert seen(stores, unbounded.copy("s_S")) == list(range(total))
        records = after(records, stores.close())
        sizes = [record.rows for record in sorted(records, key=lambda record: record.last_arrival)]
        assert all(2 * older > 3 * newer for older, newer in itertools.pairwise(sizes))
        assert len(sizes) <= math.log(total, 1.5) + 1


def test_containers_are_merged_by_fours(unbounded: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores_module, "merge_policy", lambda spec, store, rows: MergePolicy(0, 4))
    records: tuple[ContainerRecord, ...] = ()
    for batch in range(1, 22):
        stores = WorkerStores(unbounded.spec(*records), 0, 1)
        stores.add(unbounded.copy("s_S"), stored(unbounded, "s_S", [batch]))
        assert seen(stores, unbounded.copy("s_S")) == list(range(1, batch + 1))
        records = after(records, stores.close())
        sizes = [record.rows for record in sorted(records, key=lambda record: record.last_arrival)]
        assert sizes == [16] * (batch // 16) + [4] * (batch % 16 // 4) + [1] * (batch % 4)


@pytest.mark.parametrize(
    ("sizes", "new", "expected"),
    [
        ([5], 1, [0]),  # larger than what arrives, but cheap
        ([6], 1, []),
        ([9, 5, 2], 1, [1, 2]),
        ([5, 6, 5], 1, [2]),  # the first would be cheap, but does not come next
        ([8, 5], 4, [1]),  # what is left are not four of a similar size
        ([12, 12, 12, 5], 3, [0, 1, 2, 3]),
    ],
)
def test_cheap_containers_are_merged_at_once(
    unbounded: Checkpoint, monkeypatch: pytest.MonkeyPatch, sizes: list[int], new: int, expected: list[int]
) -> None:
    monkeypatch.setattr(stores_module, "merge_policy", lambda spec, store, rows: MergePolicy(5, 4))
    assert merged(unbounded, sizes, new) == expected


# ---- changes of an earlier round ---------------------------------------------------------------------------------


def test_changes_of_an_earlier_round_are_applied(unbounded: Checkpoint) -> None:
    spec, copy = unbounded.spec(*existing(unbounded, [2])), unbounded.copy("s_S")
    first = WorkerStores(spec, 0, 1)
    first.add(copy, stored(unbounded, "s_S", [2, 3]))
    changes = first.close()
    assert (len(changes.added), len(changes.removed)) == (1, 1)
    second = WorkerStores(spec, 0, 2)
    assert seen(second, copy) == [0, 1]  # without them, as the batch began
    second = WorkerStores(spec, 0, 2)
    second.apply(changes)
    assert seen(second, copy) == [0, 1, 2, 3]
    assert second.close() == StoreChanges(2, (), ())


def test_a_round_merges_what_an_earlier_one_wrote(unbounded: Checkpoint) -> None:
    spec, copy = unbounded.spec(), unbounded.copy("s_S")
    all_changes: list[StoreChanges] = []
    for number in (1, 2, 3):
        stores = WorkerStores(spec, 0, number)
        for changes in all_changes:
            stores.apply(changes)
        stores.add(copy, stored(unbounded, "s_S", [number]))
        assert seen(stores, copy) == list(range(1, number + 1))
        all_changes.append(stores.close())
    paths = [changes.added[0].path for changes in all_changes]
    assert [changes.removed for changes in all_changes] == [(), (paths[0],), ()]  # two rows are twice as many as one


# ---- what a container was not written with -----------------------------------------------------------------------


def test_a_column_that_was_not_stored_is_null() -> None:
    narrow = one_worker()
    record = narrow.write("s_S", stored(narrow, "s_S", [1, 2], a=[1, 2], v=[3, 4], time=5))
    wide = one_worker(WIDER, uri=narrow.uri)
    stores, copy = WorkerStores(wide.spec(record), 0, 1), wide.copy("s_S")
    (container,) = stores.open(copy)
    columns = {name: container.block.columns[name].to_pylist() for name, _ in copy.columns}
    assert columns == {
        ARRIVAL: [arrival(1), arrival(2)],
        EVENT_TIME: [5 * SECOND] * 2,
        "S.b": [None, None],
        "S.s": [None, None],
        "S.v": [3, 4],
    }


def test_a_column_that_was_not_stored_is_null_in_a_merged_container_too() -> None:
    narrow = one_worker()
    record = narrow.write("s_S", stored(narrow, "s_S", [1], a=1, v=3))
    wide = one_worker(WIDER, uri=narrow.uri)
    stores = WorkerStores(wide.spec(record), 0, 1)
    stores.add(wide.copy("s_S"), stored(wide, "s_S", [2], b=7, s="x"))
    ((written,), removed) = (changes := stores.close()).added, changes.removed
    assert removed == (record.path,)
    batch = read_container(wide.storage, written.path).batch
    assert (batch.column("S.b").to_pylist(), batch.column("S.s").to_pylist()) == ([None, 7], [None, "x"])


def test_an_access_path_that_a_container_lacks_is_indexed_when_it_is_used() -> None:
    old = one_worker()
    record = old.write("s_S", stored(old, "s_S", [1, 2, 3], a=[5, 5, None]))
    new = one_worker(JOIN + " AND R.v = S.v", uri=old.uri)
    (container,) = WorkerStores(new.spec(record), 0, 1).open(new.copy("s_S"))
    (path,) = new.copy("s_S").paths
    assert path.name not in read_container(new.storage, record.path).indexes
    assert container.index(path.name) is container.index(path.name)
    assert len(container.index(path.name).rows) == 0  # v is NULL in all rows
    (name,) = (path.name for path in old.copy("s_S").paths)
    assert sorted(container.index(name).rows.tolist()) == [0, 1]


def test_files_that_no_store_lists_any_more_are_closed() -> None:
    found = one_worker(uri=new_uri())
    first, second = existing(found, [1, 1])
    WorkerStores(found.spec(first, second), 0, 1).open(found.copy("s_S"))
    assert {path for uri, path in stored_container._open_files if uri == found.uri} == {first.path, second.path}
    WorkerStores(found.spec(second), 0, 1)
    assert {path for uri, path in stored_container._open_files if uri == found.uri} == {second.path}
