"""The passes in order: text, syntax, refusals, FROM, predicates, windows, bounds, outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from clash.errors import OptionError, QueryError
from clash.model.query import Query, SubJoin
from clash.model.stream import Stream, check_name
from clash.sql.time_bounds import read_bounds
from clash.sql.stream_inference import Parsed, infer_streams
from clash.sql.joins import read_joins, read_short
from clash.sql.name_lookup import did_you_mean, listed
from clash.sql.outputs import read_outputs, star
from clash.sql.predicates import read_predicates
from clash.sql.unsupported import refuse_unsupported
from clash.sql.short_form import looks_short, parse_short
from clash.sql.query_source import Source, read_source
from clash.sql.syntax import parse_select
from clash.sql.windows import read_windows

_T = TypeVar("_T")
Windows = Mapping[str, Mapping[str, str]]


def parse_query(name: str, text: str, streams: Mapping[str, Stream], windows: Mapping[str, str] | None = None) -> Query:
    """One query over declared streams."""
    return _guarded(lambda: _query(*_read(name, text), streams, windows, declared=True), name)


def parse_queries(
    queries: Mapping[str, str], streams: Mapping[str, Stream] | None = None, windows: Windows | None = None
) -> tuple[tuple[Query, ...], dict[str, Stream]]:
    """All queries, and the streams they use; without `streams` the schemas are what the queries name."""
    if not isinstance(queries, Mapping):
        raise OptionError("queries is a mapping", type(queries).__name__, 'write {"q1": "SELECT …"}')
    if not queries:
        raise OptionError("there are no queries", "", 'write {"q1": "SELECT …"}')
    for name in windows or {}:
        if name not in queries:
            hint = did_you_mean(str(name), queries, f"queries are {listed(queries)}")
            raise OptionError("windows for an unknown query", repr(name), hint)
    read = [_guarded(partial(_read, name, text), name) for name, text in queries.items()]
    declared = streams is not None
    known = dict(streams) if streams is not None else infer_streams(read)
    found = tuple(
        _guarded(partial(_query, source, parsed, known, (windows or {}).get(source.name), declared), source.name) for source, parsed in read
    )
    used = dict.fromkeys(relation.stream for query in found for _, relation in query.aliases)
    return found, {name: known[name] for name in used}


def _guarded(work: Callable[[], _T], name: object) -> _T:
    """Nesting is bounded before anything recurses; a caller that is deep in its own stack may still run out of it."""
    try:
        return work()
    except RecursionError:
        raise QueryError("the query is nested too deeply", f"query {name}", "write it with fewer levels") from None


def _read(name: str, text: str) -> tuple[Source, Parsed]:
    check_name("query", name)
    source = read_source(name, text)
    if looks_short(source):
        return source, parse_short(source)
    select = parse_select(source)
    refuse_unsupported(source, select)
    return source, select


def _query(source: Source, parsed: Parsed, streams: Mapping[str, Stream], windows: Mapping[str, str] | None, declared: bool) -> Query:
    if isinstance(parsed, tuple):
        tables, where = read_short(source, parsed, streams, declared), None
    else:
        tables = read_joins(source, parsed, streams, declared)
        where = parsed.args["where"].this if parsed.args.get("where") else None
    scope = tables.scope
    predicates = read_predicates(source, where, tables)
    if isinstance(parsed, tuple):
        outputs = tuple(output for output, _ in star(scope, scope.visible))
    else:
        outputs = read_outputs(source, parsed, scope)
    relations = frozenset(alias.relation for alias in scope.aliases)
    join = SubJoin(relations, predicates.classes, predicates.filters, predicates.residuals, read_windows(source, scope, windows))
    names = tuple((alias.name, alias.relation) for alias in scope.aliases)
    return Query(source.name, source.text, join, names, outputs, predicates.links, read_bounds(predicates, scope))
