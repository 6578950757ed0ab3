"""Schemas from a registry, and what is said when it does not answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.servers import SchemaRegistry

from clash.errors import OptionError, SourceError
from clash.records.schema_registry import schemas_from_registry

SCHEMA = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
ANSWERS: dict[str, tuple[int, object]] = {
    "/schemas/ids/1": (200, {"schema": SCHEMA}),
    "/schemas/ids/2": (200, {"schema": "message M {}", "schemaType": "PROTOBUF"}),
    "/schemas/ids/3": (500, {"error_code": 50001, "message": "Error in the backend data store"}),
    "/schemas/ids/4": (200, "<html>"),
    "/schemas/ids/5": (200, {"schema": SCHEMA, "references": [{"name": "x", "subject": "x", "version": 1}]}),
    "/subjects/a%2Fb-value/versions/latest": (200, {"subject": "a/b-value", "version": 3, "id": 7, "schema": SCHEMA}),
}


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with SchemaRegistry(ANSWERS) as server:
        yield server.url


def test_by_id_and_by_subject(registry: str) -> None:
    assert schemas_from_registry(registry, ids=[1]) == ((1, SCHEMA),)
    assert schemas_from_registry(f"{registry}/", subject="a/b-value", ids=[1]) == ((1, SCHEMA), (7, SCHEMA))


def test_an_id_that_is_not_there_has_no_text(registry: str) -> None:
    assert schemas_from_registry(registry, ids=[99, 1]) == ((1, SCHEMA), (99, ""))


def test_a_subject_that_is_not_there(registry: str) -> None:
    with pytest.raises(OptionError, match="the schema registry has no such subject"):
        schemas_from_registry(registry, subject="orders")


@pytest.mark.parametrize("id", [2, 5])
def test_schemas_that_cannot_be_read(registry: str, id: int) -> None:
    with pytest.raises(OptionError, match="this schema of the registry cannot be read"):
        schemas_from_registry(registry, ids=[id])


@pytest.mark.parametrize(("id", "why"), [(3, "500 Internal Server Error"), (4, "the answer is not JSON")])
def test_answers_that_are_none(registry: str, id: int, why: str) -> None:
    with pytest.raises(SourceError, match="the schema registry does not answer") as error:
        schemas_from_registry(registry, ids=[id])
    assert error.value.detail == f"{registry}: {why}"


def test_no_registry_at_all() -> None:
    with pytest.raises(SourceError, match="refused"):
        schemas_from_registry("http://127.0.0.1:1", ids=[1], timeout=2)
    with pytest.raises(OptionError, match="a schema registry has an http address"):
        schemas_from_registry("localhost:8081", ids=[1])
