"""What the routes of the API answer, as JSON schemas of the OpenAPI document. Keys that are added later are no other version."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}


def optional(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def by_name(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def record(**properties: Schema) -> Schema:
    """All keys are always there."""
    return {"type": "object", "required": [*properties], "properties": properties}


PROBLEM = record(type=TEXT, status=INTEGER, title=TEXT, what=TEXT, detail=TEXT, hint=TEXT)
CHANGE = record(change=TEXT, batch=optional(INTEGER), complete_from=optional(INTEGER))
RESULTS = record(
    query=TEXT, batch=INTEGER, has_more=FLAG, columns=array(record(name=TEXT, type=TEXT)), rows=array({"type": "array"})
)  # fmt: skip
_THREE_PARTS = record(what=TEXT, detail=TEXT, hint=TEXT)
_STORE_SIZE = record(rows=INTEGER, bytes=INTEGER, containers=INTEGER)
_TOTALS = record(
    batches=INTEGER, input=by_name(INTEGER), late=by_name(INTEGER), rejected=by_name(INTEGER), lost=by_name(INTEGER),
    results=by_name(INTEGER), other_results=INTEGER,
)  # fmt: skip
_PROGRESS = record(
    batch=INTEGER, generation=optional(INTEGER), timestamp=optional(TEXT), input=by_name(INTEGER), late=by_name(INTEGER),
    results=by_name(INTEGER), stores=by_name(_STORE_SIZE), watermarks=by_name(optional(TEXT)), delay=by_name(NUMBER),
    backlog=by_name(by_name(INTEGER)), seconds=by_name(NUMBER), totals=_TOTALS,
)  # fmt: skip
STATUS = record(
    active=FLAG, error=optional(_THREE_PARTS), name=optional(TEXT), checkpoint=optional(TEXT), batch=INTEGER, generation=INTEGER,
    workers=INTEGER, queries=INTEGER, streams=INTEGER, stores=INTEGER, rows=INTEGER, bytes=INTEGER, input_rate=NUMBER, result_rate=NUMBER,
    pending=array(TEXT), progress=_PROGRESS,
)  # fmt: skip
_STREAM = record(name=TEXT, is_table=FLAG, columns=array(array(TEXT)), time=optional(TEXT), window=optional(NUMBER))
_STORE = record(
    id=TEXT, name=TEXT, stream=optional(TEXT), owner=optional(TEXT), layouts=array(TEXT), window=optional(NUMBER), rows=optional(NUMBER),
    cost=optional(NUMBER), users=array(TEXT),
)  # fmt: skip
_ORIGIN = record(id=TEXT, name=TEXT, stream=optional(TEXT), owner=optional(TEXT), emits=array(TEXT))
_STEP = record(
    id=TEXT, parent=TEXT, store=TEXT, layout=TEXT, keys=array(TEXT), adds=array(TEXT), travels=TEXT, round=INTEGER, users=array(TEXT),
    emits=array(TEXT), feeds=array(TEXT), cost=optional(NUMBER),
)  # fmt: skip
TOPOLOGY = record(
    generation=INTEGER, workers=INTEGER, rounds=INTEGER, streams=array(_STREAM), stores=array(_STORE), origins=array(_ORIGIN),
    steps=array(_STEP), queries=array(record(name=TEXT, share=NUMBER, in_full=NUMBER, streams=array(TEXT))), cost=by_name(NUMBER),
)  # fmt: skip
QUERIES = array(
    record(
        name=TEXT, sql=TEXT, results=INTEGER, last_batch=INTEGER, complete_from=optional(INTEGER), rate=NUMBER,
        latency=optional(record(p50=NUMBER, p95=NUMBER)), share=optional(NUMBER), in_full=optional(NUMBER), sink=optional(TEXT),
        columns=array(TEXT), streams=array(TEXT), batch=optional(INTEGER), history=FLAG,
    )
)  # fmt: skip
GENERATIONS = array(
    record(
        generation=INTEGER, batch=INTEGER, reason=TEXT, queries=array(TEXT), workers=INTEGER, stores=INTEGER, cost=NUMBER,
        predicted_old=optional(NUMBER), predicted_new=optional(NUMBER), batches=INTEGER, measured_before=optional(NUMBER),
        measured=optional(NUMBER),
    )
)  # fmt: skip
HISTORY = array(
    record(
        batch=INTEGER, generation=INTEGER, timestamp=TEXT, seconds=NUMBER, input=by_name(INTEGER), results=by_name(INTEGER),
        stores=by_name(INTEGER), delay=optional(NUMBER),
    )
)  # fmt: skip
_USED_STORE = record(id=TEXT, name=TEXT, is_new=FLAG, rows=NUMBER, new_columns=array(TEXT), shared_with=array(TEXT))
_USED_STEP = record(order=TEXT, store=TEXT, cost=NUMBER, shared_with=array(TEXT))
WHAT_IF = record(
    name=TEXT, marginal=NUMBER, alone=NUMBER, cost=NUMBER, saved=NUMBER, stores=array(_USED_STORE), steps=array(_USED_STEP),
    completeness=record(is_complete=FLAG, needed_watermarks=by_name(optional(TEXT))), columns=array(record(name=TEXT, type=TEXT)),
    plan={"type": "object"},
)  # fmt: skip
ANSWERS = {"status": STATUS, "topology": TOPOLOGY, "queries": QUERIES, "generations": GENERATIONS, "history": HISTORY}
"""By name, what `GET /api/NAME` answers."""
