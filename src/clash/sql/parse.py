"""The passes of the front end, in order, and the entry points that run them.

A pass is a function of a `QueryDraft`: it sets one field from the fields that earlier passes set, or raises a `QueryError` that names the
place in the text. Between the two lists the streams must be known: they are declared, or `infer_streams` derives them from the syntax of
all queries together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from clash.errors import OptionError, QueryError
from clash.hints import did_you_mean, listed
from clash.model.computed import REFUSED, ComputedColumn, with_computed
from clash.model.projection import JOINED
from clash.model.query import Query, branch_name
from clash.model.stream import Stream
from clash.sql.computed import UncomputableError, UncomputedError, UnevaluatedError
from clash.sql.draft import BranchChoices, QueryDraft
from clash.sql.from_clause import resolve_from_clause
from clash.sql.outer_query import detach_outer, resolve_outer
from clash.sql.outputs import resolve_outputs
from clash.sql.predicates import NeverTrueError, classify_predicates
from clash.sql.stream_inference import infer_streams
from clash.sql.syntax import parse_syntax, tokenize
from clash.sql.time_bounds import derive_time_bounds
from clash.sql.unread import refuse_unread
from clash.sql.unsupported import refuse_unsupported
from clash.sql.windows import resolve_windows

Pass = Callable[[QueryDraft], None]

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
    derive_time_bounds,  #  from_clause, predicates -> time_bounds: τ_a ≤ τ_b + d
)
WINDOW_PASSES: tuple[Pass, ...] = (
    resolve_windows,  #     source, all_aliases     -> windows: of streams, replaced by hints and arguments
)
_MAX_BRANCHES = 64  # each is a join of its own


def parse_query(
    name: str,
    text: str,
    streams: Mapping[str, Stream],
    windows: Mapping[str, str] | None = None,
    computed: Iterable[ComputedColumn] = (),
) -> Query:
    """One query over declared streams; `windows` replace those of the streams, by alias or stream; `computed`: what Spark computes."""
    computed = tuple(computed)
    draft = QueryDraft(name, text, windows, streams=with_computed(streams, computed))
    draft.joined_types = {column.expression: column.type for column in computed if column.stream == JOINED}
    _run(SYNTAX_PASSES, draft)
    return _resolve(draft)


class SparkTypes(Protocol):
    """The Spark types of expressions. Both raise an UncomputableError where Spark cannot compute one."""

    def of_stream(self, stream: str, expression: str) -> str:
        """Of an expression over the columns of a stream."""

    def of_joined(self, fields: Sequence[tuple[str, str]], expression: str) -> str:
        """Of an expression over columns of these names and types."""

    def is_read_by_tasks(self, stream: str) -> bool:
        """Whether our own tasks read the stream, unless Spark has to compute a column of it."""

    def is_decoded_by_tasks(self, stream: str) -> bool:
        """Whether our own tasks read the stream in any case: Spark can compute no column of it."""


def parse_with_spark(
    name: str, text: str, streams: Mapping[str, Stream], windows: Mapping[str, str] | None, types: SparkTypes
) -> tuple[Query, tuple[ComputedColumn, ...]]:
    """A query, and what Spark computes for it, or could not: with that, it can be parsed without Spark."""
    computed: list[ComputedColumn] = []
    reason = ""
    while True:
        try:
            query = parse_query(name, text, streams, windows, computed)
        except UncomputedError as needed:
            try:
                column = _place(needed, types, computed)
            except UncomputableError as error:
                column, reason = ComputedColumn(JOINED, needed.expression.joined, REFUSED), str(error)
            computed.append(column)
        except UnevaluatedError as needed:
            computed.append(needed.column)
        except QueryError as error:
            raise error if not reason else QueryError(error.what, error.detail, f"Spark cannot compute it either: {reason}") from None
        else:
            return query, tuple(computed)


def _place(needed: UncomputedError, types: SparkTypes, computed: Sequence[ComputedColumn]) -> ComputedColumn:
    """Where Spark computes an expression. Over one stream it is a column where the stream is read, once for all queries, which filters and
    keys can use. If tasks read the stream, it is computed of the joined rows where only results have it: to read the stream through Spark
    costs more than one job over the results."""
    expression = needed.expression
    stream = None if expression.stream is None else expression.stream.name
    if stream is not None and not types.is_decoded_by_tasks(stream):
        is_read_by_spark = any(column.stream == stream and column.type != REFUSED for column in computed)
        if not needed.is_output or is_read_by_spark or not types.is_read_by_tasks(stream):
            return ComputedColumn(stream, expression.over_stream, types.of_stream(stream, expression.over_stream))
    return ComputedColumn(JOINED, expression.joined, types.of_joined(expression.fields, expression.joined))


def parse_queries(
    queries: Mapping[str, str], streams: Mapping[str, Stream] | None = None, windows: Mapping[str, Mapping[str, str]] | None = None
) -> tuple[tuple[Query, ...], dict[str, Stream]]:
    """All queries, each as its branches, and the streams that they use. Without `streams`, the schemas consist of the columns that the
    queries name."""
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
    resolved: list[Query] = []
    for draft in drafts:
        draft.declared = streams is not None
        query, available = _resolve_over(draft, available)
        resolved.append(query)
    parsed = tuple(branch for query in resolved for branch in query.branches)
    used = dict.fromkeys(relation.stream for query in parsed for _, relation in query.aliases)
    return parsed, {name: available[name] for name in used}


def _resolve_over(draft: QueryDraft, streams: dict[str, Stream]) -> tuple[Query, dict[str, Stream]]:
    """The query over these streams, and the streams with the columns that tasks compute for it."""
    while True:
        draft.streams = streams
        try:
            return _resolve(draft), streams
        except UnevaluatedError as needed:
            streams = with_computed(streams, [needed.column])


def _resolve(draft: QueryDraft) -> Query:
    """The query of a draft whose syntax is known. With UNION ALL it is one join for every combination of branches."""
    branches: list[QueryDraft] = []
    choices: tuple[int, ...] | None = ()
    empty: NeverTrueError | None = None
    while choices is not None:
        if len(branches) == _MAX_BRANCHES:
            hint = "make several queries of it: the combinations of all branches count"
            raise QueryError(f"UNION ALL makes more than {_MAX_BRANCHES} joins", f"query {draft.name}", hint)
        branch = replace(draft, choices=BranchChoices(choices))
        branch.source, branch.syntax, branch.detached = draft.source, draft.syntax, draft.detached
        try:
            _run(RESOLUTION_PASSES, branch)
            branches.append(branch)
        except NeverTrueError as error:
            empty = error
        choices = branch.choices.following()
    if not branches:
        raise empty or AssertionError("no branch")
    aliases = tuple(alias for branch in branches for alias in branch.scope.aliases)
    for branch in branches:
        branch.all_aliases = aliases
        _run(WINDOW_PASSES, branch)
    return _added([branch.finish() for branch in branches])


def _added(branches: list[Query]) -> Query:
    """One query of its branches. It groups by event time if all of them do, by the same column."""
    times = {branch.outer.event_time and branch.outer.event_time.column for branch in branches if branch.outer is not None}
    if len(times) > 1:
        branches = [replace(branch, outer=branch.outer and replace(branch.outer, event_time=None)) for branch in branches]
    first, *others = branches
    added = (replace(other, name=branch_name(first.name, at), text="") for at, other in enumerate(others, start=1))
    return replace(first, added=tuple(added))


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
