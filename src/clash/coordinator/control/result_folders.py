"""Folders of results: whoever reads one finds one set of columns there.

Invariant: under the checkpoint, a query with other columns than the last one of its name has a folder of its own. Those of Parquet sinks
belong to the user: what a query of ours has written to one, under whatever name and checkpoint, or may still write before its last batch
is over, has the columns of the query that writes there next. Anything else is refused before it runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from clash.coordinator.checkpoint.generation_log import History
from clash.coordinator.control.setup import Live, Setup
from clash.errors import OptionError
from clash.planner.plan import Plan
from clash.state.storage import open_storage
from clash.workers.program import result_schema

_OURS = re.compile(r"part-\d{9}-[0-9a-f]{8}-.*\.parquet")  # as clash.workers.result_writer names them: what others left there is not judged


def shelved(setup: Setup, plan: Plan, history: History, number: int) -> Setup:
    """The set-up of a new generation, with the folders of new queries whose name another one had."""
    queries = []
    outputs = {q.name: [(o.name, o.expression.type) for o in q.outputs] for q in plan.queries}
    for query in setup.queries:
        former = history.last_of(query.name) if query.batch is None and query.asked.sink.kind != "parquet" else None
        if former is not None:
            same = [(o.name, o.expression.type) for o in former[1].outputs] == outputs[query.name]
            query = replace(query, folder=former[0].folder if same else f"{query.name}.{number}")
        queries.append(query)
    return replace(setup, queries=tuple(queries))


def refuse_mixed(after: Setup, *before: Setup) -> None:
    """`before`: the set-ups that run, or wait for a border. Only what is new in `after` is looked at."""
    known = {(query.asked.meaning, query.asked.sink.folder) for setup in before for query in setup.queries}
    for query in after.queries:
        asked = query.asked
        if asked.sink.folder is None or (asked.meaning, asked.sink.folder) in known:
            continue
        wanted = _columns(after, query)
        for writer, columns in _written(asked.sink.path or "", asked.sink.folder, before):
            if columns != wanted:
                raise OptionError(
                    "the folder has results with other columns",
                    f"query {query.name} gives {_shown(wanted)}; {writer} {_shown(columns)}",
                    'give it another folder: sink=clash.sinks.Parquet("…")',
                )


Columns = list[tuple[str, pa.DataType]]


def _columns(setup: Setup, query: Live) -> Columns:
    return [(field.name, field.type) for field in result_schema(setup.parse(query.asked))]


def _written(path: str, folder: str, before: Iterable[Setup]) -> Iterator[tuple[str, Columns]]:
    """What is there, or will be: who says so, and its columns."""
    for setup in before:
        for query in setup.queries:
            if query.asked.sink.folder == folder:
                yield f"query {query.name} writes to {path} until then, and gives", _columns(setup, query)
    storage = open_storage(path)
    names = [name for name in storage.list() if _OURS.fullmatch(name)]
    with suppress(pa.ArrowInvalid):  # nobody can read it
        for name in names[-1:]:  # they are all alike
            schema = pq.read_schema(pa.BufferReader(storage.read(name)))
            yield f"files in {path} have", [(field.name, field.type) for field in schema]


def _shown(columns: Columns, most: int = 12) -> str:
    told = [f"{name} {kind}" for name, kind in columns[:most]]
    return ", ".join([*told, *(["…"] if len(columns) > most else [])])
