"""The passes of the front end, in order, and the entry points that run them.

A pass is a function of a `QueryDraft`: it sets one field from the fields that earlier passes set, or raises a `QueryError` that names the
place in the text. Between the two lists the streams must be known: they are declared, or `infer_streams` derives them from the syntax of
all queries together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from clash.errors import OptionError, QueryError
from clash.hints import did_you_mean, listed
from clash.model.computed import REFUSED, ComputedColumn, with_computed
from clash.model.query import Query
from clash.model.stream import Stream
from clash.sql.computed import UncomputableError, UncomputedError
from clash.sql.draft import QueryDraft
from clash.sql.from_clause import resolve_from_clause
from clash.sql.outer_query import detach_outer, resolve_outer
from clash.sql.outputs import resolve_outputs
from clash.sql.predicates import classify_predicates
from clash.sql.stream_inference import infer_streams
from clash.sql.syntax import parse_syntax, tokenize
from clash.sql.time_bounds import derive_time_bounds
from clash.sql.unread import refuse_unread
from clash.sql.unsupported import refuse_unsupported
from clash.sql.windows import resolve_windows

Pass = Callable[[QueryDraft], None]
TypeOf = Callable[[str, str], str]

SYNTAX_PASSES: tuple[Pass, ...] = (
    tokenize,  #            text                    -> source: the tokens, with their positions
    parse_syntax,  #        source                  -> syntax: a SELECT of sqlglot, or a short form
    detach_outer,  #        syntax                  -> detached: aggregates, GROUP BY, HAVING, DISTINCT; syntax: the join core
    refuse_unsupported,  #  syntax                  -> nothing: raises for what lies outside the supported subset
    refuse_unread,  #       syntax                  -> nothing: raises for parts of the syntax that no pass reads
)
RESOLUTION_PASSES: tuple[Pass, ...] = (
    resolve_from_clause,  # syntax, streams         -> from_clause: streams, columns, USING and NATURAL, conditions; nested SELECTs too
    classify_predicates,  # syntax, from_clause     -> predicates: equality classes, filters and residuals, in normal form
    resolve_outer,  #       detached, from_clause   -> outer: SQL over the join core; syntax: the columns of the join core
    resolve_outputs,  #     syntax, from_clause     -> outputs: the SELECT list, `*` expanded
    resolve_windows,  #     source, from_clause     -> windows: of streams, replaced by hints and arguments
    derive_time_bounds,  #  from_clause, predicates -> time_bounds: τ_a ≤ τ_b + d
)


def parse_query(name: str, text: str, streams: Mapping[str, Stream], windows: Mapping[str, str] | None = None) -> Query:
    """One query over declared streams; `windows` replace those of the streams, by alias or stream."""
    draft = QueryDraft(name, text, windows, streams=streams)
    _run(SYNTAX_PASSES, draft)
    _run(RESOLUTION_PASSES, draft)
    return draft.finish()


def parse_with_spark(
    name: str, text: str, streams: Mapping[str, Stream], windows: Mapping[str, str] | None, type_of: TypeOf
) -> tuple[Query, tuple[ComputedColumn, ...]]:
    """A query, and the columns that Spark computes for it, or could not: with them, it can be parsed without Spark. `type_of`: the Spark
    type of an expression over a stream; UncomputableError if Spark cannot compute it."""
    columns: list[ComputedColumn] = []
    reason = ""
    while True:
        try:
            query = parse_query(name, text, with_computed(streams, columns), windows)
        except UncomputedError as needed:
            try:
                kind = type_of(needed.stream, needed.expression)
            except UncomputableError as error:
                kind, reason = REFUSED, str(error)
            columns.append(ComputedColumn(needed.stream, needed.expression, kind))
        except QueryError as error:
            raise error if not reason else QueryError(error.what, error.detail, f"Spark cannot compute it either: {reason}") from None
        else:
            return query, tuple(columns)


def parse_queries(
    queries: Mapping[str, str], streams: Mapping[str, Stream] | None = None, windows: Mapping[str, Mapping[str, str]] | None = None
) -> tuple[tuple[Query, ...], dict[str, Stream]]:
    """All queries, and the streams that they use. Without `streams`, the schemas consist of the columns that the queries name."""
    if not isinstance(queries, Mapping):
        raise OptionError("queries is a mapping", type(queries).__name__, 'write {"q1": "SELECT …"}')
    if not queries:
        raise OptionError("there are no queries", "", 'write {"q1": "SELECT …"}')
    for name in windows or {}:
        if name not in queries:
            hint = did_you_mean(str(name), queries, f"queries are {listed(queries)}")
            raise OptionError("windows for an unknown query", repr(name), hint)
    drafts = [QueryDraft(name, text, (windows or {}).get(name)) for name, text in queries.items()]
    for draft in drafts:
        _run(SYNTAX_PASSES, draft)
    available = infer_streams(drafts) if streams is None else dict(streams)
    for draft in drafts:
        draft.streams, draft.declared = available, streams is not None
        _run(RESOLUTION_PASSES, draft)
    parsed = tuple(draft.finish() for draft in drafts)
    used = dict.fromkeys(relation.stream for query in parsed for _, relation in query.aliases)
    return parsed, {name: available[name] for name in used}


def _run(passes: tuple[Pass, ...], draft: QueryDraft) -> None:
    """Runs the passes in order.

    `tokenize` bounds the nesting of a query before anything recurses over it, but a caller that is itself deep in the stack may still
    exhaust it.
    """
    try:
        for each in passes:
            each(draft)
    except RecursionError:
        raise QueryError("the query is nested too deeply", f"query {draft.name}", "write it with fewer levels") from None
