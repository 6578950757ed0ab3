"""Which workers get the rows of a block, in messages of what size."""

from __future__ import annotations

import pyarrow as pa
import pytest

import clash
from clash.columnar.block import Block, concat
from clash.columnar.slots import slots
from clash.model.block_columns import ARRIVAL
from clash.model.relation import Attribute, Relation
from clash.plan.physical import Channel, TypedColumn
from clash.plan.topology import Address, AddressKind
from clash.protocol.batch import BatchSpec
from clash.protocol.messages import Message, read_block
from clash.workers.loaded_plan import arrow_schema
from clash.workers.routing import scatter

from .batches import arrival, checkpoint, stream
from .probing import one_worker

COLUMNS = (TypedColumn(ARRIVAL, "bigint"), TypedColumn("R.a", "bigint"), TypedColumn("R.s", "string"))
SCHEMA = arrow_schema(COLUMNS)
KEYS = [5, None, -3, 5, 0, None, 2**62, 8]
BLOCK = Block(
    len(KEYS),
    {
        ARRIVAL: pa.array([arrival(at, role=1) for at in range(len(KEYS))], pa.int64()),
        "R.a": pa.array(KEYS, pa.int64()),
        "R.s": pa.array([f"text {at}" for at in range(len(KEYS))]),
    },
)


def channel(kind: AddressKind, stays: bool = False) -> Channel:
    attribute = Attribute(Relation("R"), "a") if kind in ("key", "home") else None
    return Channel("c", ("e1",), Address(kind, attribute), stays, 1, COLUMNS, {})


def spec(workers: int, **tuning: int) -> BatchSpec:
    return one_worker().spec(workers=workers, tuning=tuning)


def sent(kind: AddressKind, workers: int, *, stays: bool = False, worker: int | None = None, **tuning: int) -> list[Message]:
    keys = BLOCK.columns["R.a"] if kind in ("key", "home") else None
    return list(scatter(spec(workers, **tuning), channel(kind, stays), SCHEMA, BLOCK, keys, worker))


def by_worker(messages: list[Message]) -> dict[int, list[str]]:
    """The texts of the rows that each worker gets, in order."""
    rows: dict[int, list[str]] = {}
    for worker, kind, payload in messages:
        assert kind == "c"
        rows.setdefault(worker, []).extend(read_block(payload, SCHEMA).columns["R.s"].to_pylist())
    return rows


def texts(*rows: int) -> list[str]:
    return [f"text {at}" for at in rows]


EVERY = texts(*range(len(KEYS)))


@pytest.mark.parametrize("kind", ["key", "home"])
def test_the_hash_of_a_key_decides_and_null_is_in_slot_0(kind: AddressKind) -> None:
    targets = slots(BLOCK.columns["R.a"], 3, "UTC").tolist()
    assert targets[1] == targets[5] == 0
    assert targets[0] == targets[3]
    expected = {worker: texts(*(at for at, target in enumerate(targets) if target == worker)) for worker in sorted(set(targets))}
    assert by_worker(sent(kind, 3)) == expected


def test_any_worker_means_the_arrival_decides() -> None:
    """By the number of the arrival, whatever the role of the tuple."""
    assert by_worker(sent("any", 3)) == {0: texts(0, 3, 6), 1: texts(1, 4, 7), 2: texts(2, 5)}


def test_all_workers_get_the_same_rows() -> None:
    messages = sent("all", 3)
    assert by_worker(messages) == dict.fromkeys(range(3), EVERY)
    assert len({id(message.payload) for message in messages}) == 1  # which are written once


def test_one_worker_is_the_first() -> None:
    assert by_worker(sent("one", 3, worker=2)) == {0: EVERY}


def test_rows_that_stay_are_sent_to_their_own_worker() -> None:
    assert by_worker(sent("key", 3, stays=True, worker=2)) == {2: EVERY}
    with pytest.raises(AssertionError, match="only a tuple that is on a worker can stay there"):
        sent("key", 3, stays=True)


@pytest.mark.parametrize("kind", ["key", "home", "any", "all", "one"])
def test_a_single_worker_gets_each_row_once(kind: AddressKind) -> None:
    assert by_worker(sent(kind, 1)) == {0: EVERY}


@pytest.mark.parametrize("kind", ["key", "any", "all", "one"])
@pytest.mark.parametrize("limit", [1, 60, 100, 1 << 20])
def test_messages_are_bounded_and_their_union_is_complete(kind: AddressKind, limit: int) -> None:
    messages = sent(kind, 2, message_bytes=limit)
    assert by_worker(messages) == by_worker(sent(kind, 2))
    for message in messages:
        block = read_block(message.payload, SCHEMA)
        assert block.rows == 1 or concat([block]).nbytes <= limit + 8  # offsets of a text column are one more than its rows


def test_a_channel_of_a_plan_leads_rows_to_where_they_are_stored() -> None:
    """The slot of a stored row is the worker that the row is sent to."""
    plan = clash.optimize(
        {"q": "SELECT R.v, S.v AS w FROM R JOIN S ON R.a = S.a"}, streams=[stream("R"), stream("S")], workers=4, time_limit=0.0
    )
    found = checkpoint(plan)
    (edge,) = (edge for edge in found.topology.ingest["R"])
    assert edge.address.attribute == found.copy("s_R").partition_column


@pytest.mark.parametrize("kind", ["key", "all", "one", "any"])
def test_no_rows_no_message(kind: AddressKind) -> None:
    empty = BLOCK.slice(0, 0)
    assert list(scatter(spec(2), channel(kind), SCHEMA, empty, empty.columns["R.a"] if kind == "key" else None)) == []
