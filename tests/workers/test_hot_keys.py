"""Layouts with hot keys: rows with such a key are on the worker that their arrival names, and tuples that look for them go everywhere."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from clash.columnar.slots import hot_rows, key_hashes, slots
from clash.model.layout import Layout, slot_of
from clash.model.relation import Attribute, Relation
from clash.plan.physical import Channel
from clash.plan.topology import Address, AddressKind
from clash.workers.routing import scatter

from .test_routing import BLOCK, COLUMNS, KEYS, SCHEMA, by_worker, spec, texts

HOT = tuple(sorted(int(one) for one in key_hashes(pa.array([5, 8]), "UTC")[0]))
IS_HOT = [key in (5, 8) for key in KEYS]


def sent(kind: AddressKind, workers: int, hot: tuple[int, ...] = HOT) -> dict[int, list[str]]:
    channel = Channel("c", ("e1",), Address(kind, Attribute(Relation("R"), "a"), hot), False, 1, COLUMNS, {})
    messages = list(scatter(spec(workers), channel, SCHEMA, BLOCK, BLOCK.columns["R.a"]))
    return {worker: sorted(rows) for worker, rows in by_worker(messages).items()}


def expected(places: list[set[int]]) -> dict[int, list[str]]:
    workers = sorted(set().union(*places))
    return {worker: sorted(texts(*(at for at, of_row in enumerate(places) if worker in of_row))) for worker in workers}


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_tuples_with_a_hot_key_go_to_every_worker(workers: int) -> None:
    by_key = slots(BLOCK.columns["R.a"], workers, "UTC").tolist()
    assert sent("key", workers) == expected([{*range(workers)} if hot else {slot} for hot, slot in zip(IS_HOT, by_key, strict=True)])


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_rows_with_a_hot_key_are_stored_where_their_arrival_says(workers: int) -> None:
    by_key = slots(BLOCK.columns["R.a"], workers, "UTC").tolist()
    assert sent("home", workers) == expected([{at % workers if hot else by_key[at]} for at, hot in enumerate(IS_HOT)])


@pytest.mark.parametrize("kind", ["key", "home"])
def test_a_single_worker_gets_each_row_once(kind: AddressKind) -> None:
    assert sent(kind, 1) == {0: sorted(texts(*range(len(KEYS))))}


@pytest.mark.parametrize("kind", ["key", "home"])
def test_all_rows_may_be_hot(kind: AddressKind) -> None:
    every = tuple(sorted({int(one) for one in key_hashes(BLOCK.columns["R.a"], "UTC")[0]}))
    found = sent(kind, 3, every)
    assert sum(map(len, found.values())) == (6 * 3 + 2 if kind == "key" else len(KEYS))  # two are NULL


def test_a_null_is_never_hot() -> None:
    column = pa.array([None, 5, None], pa.int64())
    assert hot_rows(column, tuple(int(one) for one in key_hashes(column, "UTC")[0]), "UTC").tolist() == [False, True, False]


def test_equal_values_of_other_types_are_hot_together() -> None:
    for column in (pa.array([5.0, 8.0, 1.0]), pa.array([5, 8, 1], pa.int16()), pa.array([5, 8, 1]).cast(pa.decimal128(22, 2))):
        assert hot_rows(column, HOT, "UTC").tolist() == [True, True, False]


def test_a_hash_names_the_slot_that_rows_have() -> None:
    keys = pa.array(np.arange(-500, 500))
    for workers in (1, 2, 3, 7):
        assert [slot_of(int(one), workers) for one in key_hashes(keys, "UTC")[0]] == slots(keys, workers, "UTC").tolist()


def test_a_layout_says_how_many_keys_are_hot() -> None:
    assert str(Layout("hash", "a", hot=HOT)) == "a +2 hot"
    assert str(Layout("hash", "a", Relation("S", 1), HOT)) == "S#2.a +2 hot"
