"""The bodies of requests, checked."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clash.job import model
from clash.server.limits import MAX_SQL
from clash.server.problems import ProblemError

NAME_PATTERN = "^[A-Za-z_][A-Za-z0-9_]{0,99}$"
MAX_WORKERS = 1024


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class QueryText(Body):
    sql: str = Field(min_length=1, max_length=MAX_SQL, description="The text of the query.")
    windows: dict[str, str] | None = Field(None, description="By alias or stream, another window than that of the stream.")
    mode: Literal["complete", "update", "append"] | None = Field(None, description="Of a query with aggregates or DISTINCT.")


class Question(QueryText):
    """A query that is not there yet."""

    replaces: str | None = Field(None, pattern=NAME_PATTERN, description="The query whose place it would take.")


class Replacement(QueryText):
    """The query that takes the place of another."""

    sink: model.Sink | None = Field(None, description="Where the results go, as in a job file. Without it, under the checkpoint.")
    history: bool = Field(True, description="Whether rows that are stored already are joined, too.")


class Addition(Replacement):
    """One query more."""

    name: str = Field(pattern=NAME_PATTERN, description="Letters, digits and underscores.")


class Workers(Body):
    """Another number of workers."""

    workers: int = Field(ge=1, le=MAX_WORKERS)


B = TypeVar("B", bound=Body)


def parse_body(kind: type[B], data: Any) -> B:
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        message = str(first["msg"]).replace("Input should", "it should")
        hint = "GET /api/openapi.json describes what it should be"
        raise ProblemError(422, "the body is not what this address takes", f"{place}: {message[:1].lower()}{message[1:]}", hint) from None
