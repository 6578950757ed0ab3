"""`/api/openapi.json`: the control API, described for programs."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from clash.server.bodies import NAME_PATTERN, Addition, Question, Replacement, Workers
from clash.server.problems import MEDIA_TYPE
from clash.server.schemas import ANSWERS, CHANGE, PROBLEM, RESULTS, TEXT, WHAT_IF, Schema

VERSION = "1"  # of the API: it changes when a route or a key goes away or changes its meaning
_REF = "#/components/schemas/{model}"
_PROBLEMS = {
    "400": "The body is not JSON.",
    "401": "The token is missing or wrong.",
    "403": "The request is for another host, or from another site.",
    "404": "There is nothing of that name.",
    "405": "The method is not allowed here.",
    "408": "The body did not arrive in time.",
    "409": "The name is taken, or the run has ended.",
    "413": "The body is too large.",
    "415": "The body is not declared as JSON.",
    "422": "The query, or another value, is refused; the three parts say why.",
    "429": "Too many requests.",
    "503": "Too many event streams or connections, or the planner is busy.",
}


def document() -> Schema:
    models: Any = [(model, "validation") for model in (Addition, Replacement, Question, Workers)]
    _, definitions = models_json_schema(models, ref_template=_REF)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "CLASH control API",
            "version": VERSION,
            "description": "Watch and change a run. Every route but /healthz needs the token of the run.",
        },
        "security": [{"bearer": []}, {"cookie": []}],
        "paths": _paths(),
        "components": {
            "schemas": {**definitions["$defs"], "Problem": PROBLEM},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "clash-PORT"},
            },
        },
    }


def _paths() -> Schema:
    name = _parameter("name", "path", {"type": "string", "pattern": NAME_PATTERN}, "The name of a query.")
    query = _parameter("query", "path", {"type": "string", "pattern": NAME_PATTERN}, "The name of a query.")
    table = _parameter("name", "path", {"type": "string", "pattern": NAME_PATTERN}, "The name of a table.")
    wait = _parameter("wait", "query", {"type": "integer", "minimum": 0, "maximum": 60}, "Seconds to wait until the change is in effect.")
    last = _parameter("last", "query", {"type": "integer", "minimum": 1, "maximum": 1000}, "So many results, at most.")
    after = _parameter("after", "query", {"type": "integer", "minimum": -1, "maximum": 2**53}, "Of later batches only.")
    return {
        "/api/status": {"get": _operation("Whether the run is active, its last batch, and totals.", ANSWERS["status"])},
        "/api/topology": {"get": _operation("The plan that runs: stores, steps, their users, their expected cost.", ANSWERS["topology"])},
        "/api/queries": {
            "get": _operation("The live queries.", ANSWERS["queries"]),
            "post": _operation("Adds a query.", CHANGE, [wait], "Addition", status="202"),
        },
        "/api/queries/{name}": {
            "put": _operation("Replaces a query by another, at one boundary.", CHANGE, [name, wait], "Replacement", status="202"),
            "delete": _operation("Removes a query; its results stay.", CHANGE, [name, wait], status="202"),
        },
        "/api/what-if": {"post": _operation("What one more query would cost, share and store.", WHAT_IF, body="Question")},
        "/api/workers": {"post": _operation("Another number of workers.", CHANGE, [wait], "Workers", status="202")},
        "/api/tables/{name}/refresh": {
            "post": _operation("Reads a table again; the answer comes when it is read.", CHANGE, [table, wait], status="202")
        },
        "/api/generations": {"get": _operation("Every plan so far, oldest first.", ANSWERS["generations"])},
        "/api/results/{query}": {"get": _operation("The last results of a query.", RESULTS, [query, last, after])},
        "/api/history": {"get": _operation("The last batches, oldest first.", ANSWERS["history"], [after])},
        "/api/events": {"get": _operation("Snapshots when they change, and measured flows, as server-sent events.", None)},
        "/api/openapi.json": {"get": _operation("This document.", {"type": "object"})},
        "/metrics": {"get": _operation("Metrics in the text format of Prometheus.", None, kind="text/plain")},
        "/healthz": {"get": {**_operation("Whether the server answers; needs no token.", None, kind="text/plain"), "security": []}},
    }


def _parameter(name: str, place: str, schema: Schema, description: str) -> Schema:
    return {"name": name, "in": place, "required": place == "path", "schema": schema, "description": description}


def _operation(
    summary: str,
    answer: Schema | None,
    parameters: list[Schema] | None = None,
    body: str | None = None,
    status: str = "200",
    kind: str = "text/event-stream",
) -> Schema:
    content = {kind: {"schema": TEXT}} if answer is None else {"application/json": {"schema": answer}}
    problem = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}}
    operation: Schema = {
        "summary": summary,
        "parameters": parameters or [],
        "responses": {
            status: {"description": summary, "content": content},
            **{code: {"description": text, "content": problem} for code, text in _PROBLEMS.items()},
        },
    }
    if body is not None:
        schema = {"$ref": _REF.format(model=body)}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation
