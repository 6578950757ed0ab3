"""Results in PostgreSQL: each once, with the number of their batch in the same transaction."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pyarrow as pa
import pytest
from tests.servers import PostgresServer

import clash
from clash.delivery.deliveries import Deliveries
from clash.delivery.postgres_target import PostgresTarget
from clash.delivery.target import Destination, Output
from clash.sinks import Postgres

from .kills import POINTS, Kills
from .test_avro_rows import ROW, SCHEMA, table


class Program:
    """What a run does with its sinks."""

    opened: ClassVar[list[Deliveries]] = []

    def __init__(self, checkpoint: str, *sinks: Postgres, last: int = -1, uncertain: bool = False, columns: Any = None) -> None:
        self.deliveries = Deliveries(lambda sink, stopping: PostgresTarget(sink, checkpoint, stopping))
        self.opened.append(self.deliveries)
        destinations = [Destination("q", sink, columns or rows(0).schema) for sink in sinks]
        self.deliveries.begin(destinations, last, destinations if uncertain else ())

    def deliver(self, batch: int, *results: tuple[Postgres, pa.RecordBatch], missing: int = 0) -> None:
        outputs = [
            Output("q", sink, piece.schema, len(piece) + missing, lambda piece=piece: iter([piece]))  # type: ignore[misc]
            for sink, piece in results
        ]
        self.deliveries.deliver(batch, outputs)


def rows(batch: int, number: int = 3) -> pa.RecordBatch:
    return pa.record_batch({"batch": pa.array([batch] * number), "row": pa.array(range(number))})


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while Program.opened:
        Program.opened.pop().close()


@pytest.fixture
def name() -> str:
    return f"t{uuid4().hex[:12]}"


@pytest.fixture
def sink(postgres_server: PostgresServer, name: str) -> Callable[..., Postgres]:
    def make(suffix: str = "", **options: Any) -> Postgres:
        return Postgres(name + suffix, dsn=postgres_server.dsn, **{"create": True, "wait": 20, **options})

    return make


def found(server: PostgresServer, table: str) -> Counter[tuple[int, int]]:
    return Counter(server.query(f"SELECT batch, row FROM {table}"))  # type: ignore[arg-type]


def test_a_batch_that_is_delivered_again_is_there_once(postgres_server: PostgresServer, sink: Callable[..., Postgres], name: str) -> None:
    out = sink()
    program = Program(name, out)
    for batch in (0, 1, 1, 0, 2):
        program.deliver(batch, (out, rows(batch)))
    again = Program(name, out, last=2, uncertain=True)
    for batch in (2, 3):
        again.deliver(batch, (out, rows(batch)))
    assert found(postgres_server, name) == Counter((batch, row) for batch in range(4) for row in range(3))


def test_tables_of_one_database_share_a_transaction(postgres_server: PostgresServer, sink: Callable[..., Postgres], name: str) -> None:
    a, b = sink("a"), sink("b", create=False)
    postgres_server.query(f"CREATE TABLE {name}b (batch bigint, row bigint CHECK (row < 5), more text DEFAULT 'x')")
    program = Program(name, a, b)
    with pytest.raises(clash.SinkError, match="does not take the results") as caught:
        program.deliver(0, (a, rows(0)), (b, rows(0, number=9)))
    assert "check constraint" in caught.value.detail
    assert not found(postgres_server, f"{name}a")
    with pytest.raises(clash.SinkError, match="no longer there"):
        program.deliver(0, (a, rows(0)), missing=1)
    program.deliver(0, (a, rows(0)), (b, rows(0)))
    assert found(postgres_server, f"{name}a") == found(postgres_server, f"{name}b") == Counter((0, row) for row in range(3))


def test_every_type(postgres_server: PostgresServer, sink: Callable[..., Postgres], name: str) -> None:
    out = sink()
    program = Program(name, out, columns=SCHEMA)
    strange = {**ROW, "s": 'quoted "text", with\n\\ lines', "d": float("inf"), "f": float("nan"), "x": b"\x00\xff", "big": 2**63 - 1}
    program.deliver(0, (out, table([ROW, None, strange])))
    read = postgres_server.query(f"SELECT * FROM {name} ORDER BY n NULLS LAST, s")
    first, second, third = (dict(zip(SCHEMA.names, row, strict=True)) for row in read)
    assert first == {**ROW, "f": pytest.approx(0.1), "deep": {"y": {"z": 1.5}}, "nested": [{"x": 1}, None], "x": b""}
    assert third == dict.fromkeys(SCHEMA.names)
    assert {key: second[key] for key in ("s", "d", "x", "big")} == {key: strange[key] for key in ("s", "d", "x", "big")}
    kinds = {type(value) for value in first.values()}
    assert {date, datetime, timedelta, Decimal} < kinds
    assert first["ts"].astimezone(UTC) == ROW["ts"]
    assert json.dumps(first["map"]) == '{"a": 1}'


def test_a_program_that_was_taken_over_writes_nothing(postgres_server: PostgresServer, sink: Callable[..., Postgres], name: str) -> None:
    out = sink()
    first = Program(name, out)
    first.deliver(0, (out, rows(0)))
    second = Program(name, out, last=0)
    for _ in range(2):
        with pytest.raises(clash.SinkError, match="another run has taken over a sink"):
            first.deliver(1, (out, rows(1)))
    second.deliver(1, (out, rows(1)))
    assert found(postgres_server, name) == Counter((batch, row) for batch in range(2) for row in range(3))


def test_what_does_not_fit_is_refused(postgres_server: PostgresServer, sink: Callable[..., Postgres], name: str) -> None:
    with pytest.raises(clash.SinkError, match="a table does not exist"):
        Program(name, sink(create=False))
    postgres_server.query(f"CREATE TABLE {name} (batch bigint, line bigint)")
    with pytest.raises(clash.OptionError, match="a table has no columns for results") as caught:
        Program(name, sink())
    assert caught.value.detail == f"row of query q in {name}"
    Program(f"{name}x", sink("x")).deliver(5, (sink("x"), rows(5)))
    with pytest.raises(clash.CheckpointError, match="batches that the checkpoint does not have"):
        Program(f"{name}x", sink("x"), last=4)
    postgres_server.query(f"DELETE FROM clash_batches WHERE checkpoint = '{name}x'")
    with pytest.raises(clash.CheckpointError, match="lost the number of its last batch"):
        Program(f"{name}x", sink("x"), last=5, uncertain=True)


def test_a_server_that_fails_is_waited_for(postgres_server: PostgresServer, sink: Callable[..., Postgres], name: str) -> None:
    impatient, patient = sink(wait=1), sink()
    program = Program(name, impatient)
    program.deliver(0, (impatient, rows(0)))
    postgres_server.kill()
    try:
        with pytest.raises(clash.SinkError, match="a sink does not answer"):
            program.deliver(1, (impatient, rows(1)))
    finally:
        postgres_server.start()
    again = Program(name, patient, last=1, uncertain=True)
    again.deliver(1, (patient, rows(1)))
    postgres_server.kill()
    postgres_server.start()
    again.deliver(2, (patient, rows(2)))
    assert found(postgres_server, name) == Counter((batch, row) for batch in range(3) for row in range(3))


def test_a_user_with_few_rights_is_enough(postgres_server: PostgresServer, name: str) -> None:
    postgres_server.query(f"CREATE ROLE {name} LOGIN PASSWORD 'secret-word'")
    postgres_server.query(f"CREATE SCHEMA {name} AUTHORIZATION {name}")
    sink = Postgres(f"{name}.out", dsn=postgres_server.dsn, create=True, options={"user": name, "password": "secret-word"})
    out = Postgres(f"{name}.out", dsn=postgres_server.dsn, create=True, options={**sink.options, "options": f"-c search_path={name}"})
    Program(name, out).deliver(0, (out, rows(0)))
    assert found(postgres_server, f"{name}.out").total() == 3
    assert "secret-word" not in repr(out) + str(out.record) + out.system
    assert ("options", "true") in out.record
    assert Postgres.restore(out.record).system == out.system
    with pytest.raises(clash.OptionError, match="not a connection to PostgreSQL") as caught:
        Postgres("t", dsn="host=h password=secret-word nonsense")
    assert "secret-word" not in str(caught.value)


def test_a_program_that_is_killed_around_the_transaction(postgres_server: PostgresServer, tmp_path: Path, name: str) -> None:
    kills = Kills(tmp_path, postgres_server, name, seed=1)
    for kind in (*POINTS, "any", "early", "system"):
        kills.kill(kind)
    kills.check(kills.finish())
