"""Folders of results: a reader of one finds one set of columns in it.

Invariant: under the checkpoint, a query with other columns than the last one of its name has a folder of its own, and so has every query
with an outer part: its folder names the state of its outer query. Folders of Parquet sinks
belong to the user: what a query of any checkpoint has written to one, or may still write before its last batch is over, has the columns of
the query that writes there next. Anything else is refused before it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from clash.coordinator.control.setup import LiveQuery, Setup
from clash.errors import OptionError
from clash.expressions import arrow_type
from clash.model.query import Query
from clash.protocol.result_files import origin_of
from clash.state.storage import open_storage

Columns = list[tuple[str, pa.DataType]]
FormerQuery = Callable[[str], LiveQuery | None]  # the query that had a name last, live or not
_MAX_SHOWN = 12


def assign_result_folders(setup: Setup, former: FormerQuery, generation: int) -> Setup:
    """The set-up of a new generation, in which new queries have a folder of their own where another query of their name left other
    columns."""
    queries = []
    for live in setup.queries:
        last = former(live.name) if live.batch is None and live.request.sink.kind != "parquet" else None
        if last is not None:
            same = last.query.result_columns == live.query.result_columns and live.request.outer is None and last.request.outer is None
            live = replace(live, folder=last.folder if same else f"{live.name}.{generation}")
        queries.append(live)
    return replace(setup, queries=tuple(queries))


def refuse_mixed_columns(after: Setup, *before: Setup) -> None:
    """Raises an OptionError for a new query that writes to a Parquet folder with results of other columns. `before`: the set-ups that run,
    or wait for a boundary; only what is new in `after` is checked."""
    known = {(query.request.meaning, query.request.sink.folder) for setup in before for query in setup.queries}
    for live in after.queries:
        request = live.request
        if request.sink.folder is None or (request.meaning, request.sink.folder) in known:
            continue
        columns = _columns(live.query)
        for writer, others in _written(request.sink.path or "", request.sink.folder, before):
            if others != columns:
                raise OptionError(
                    "the folder has results with other columns",
                    f"query {live.name} gives {_shown(columns)}; {writer} {_shown(others)}",
                    'give it another folder: sink=clash.sinks.Parquet("…")',
                )


def _columns(query: Query) -> Columns:
    return [(name, arrow_type(kind)) for name, kind in query.result_columns]


def _written(path: str, folder: str, before: Iterable[Setup]) -> Iterator[tuple[str, Columns]]:
    """The columns that are in the folder, or will be, each with who wrote them."""
    for setup in before:
        for live in setup.queries:
            if live.request.sink.folder == folder:
                yield f"query {live.name} writes to {path} until then, and gives", _columns(live.query)
    storage = open_storage(path)
    names = [name for name in storage.list() if origin_of(name) is not None]  # files of others are not judged
    with suppress(pa.ArrowInvalid):  # not readable by anyone
        for name in names[-1:]:  # they are all alike
            schema = pq.read_schema(pa.BufferReader(storage.read(name)))
            yield f"files in {path} have", [(field.name, field.type) for field in schema]


def _shown(columns: Columns) -> str:
    listed = [f"{name} {kind}" for name, kind in columns[:_MAX_SHOWN]]
    return ", ".join([*listed, *(["…"] if len(columns) > _MAX_SHOWN else [])])
