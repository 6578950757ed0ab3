"""Pass: the window of each relation, which is that of its stream unless the query gives another one, by argument or by hint.

A hint `/*+ WINDOW(R, '5 seconds') */` may stand anywhere in the text, repeatedly, with several pairs. A name in it is an alias, or else a
stream, which means all aliases of that stream. The alias of a derived table means all streams in it; one of them alone is
`derived.alias`, in backquotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from clash.errors import OptionError, QueryError
from clash.hints import did_you_mean, listed
from clash.model.durations import parse_duration, show_duration
from clash.model.query import Query
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.sql.draft import QueryDraft, Windows
from clash.sql.name_lookup import look_up
from clash.sql.query_source import QuerySource, Span, read_source
from clash.sql.scope import Alias, Scope

_COMMENT = re.compile(r"--[^\n]*|/\*(\+?)(.*?)\*/", re.DOTALL)
_CALL = re.compile(r"\s*,?\s*([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?")
_PAIR = re.compile(r"\s*(?:([A-Za-z_]\w*)|`([^`]+)`)\s*,\s*(?:'([^']*)'|\"([^\"]*)\")\s*(,|$)")
_REST = re.compile(r"\s*")
_HINT = "write /*+ WINDOW(R, '5 seconds') */ or /*+ WINDOW(R, 'unbounded') */"


def resolve_windows(draft: QueryDraft) -> None:
    """Sets `windows`. Tables have none: windows bound event times, and rows of tables have no event time."""
    aliases = draft.scope.aliases
    if aliases and all(alias.stream.is_table for alias in aliases):
        hint = "join it with a stream, whose tuples make results when they arrive; tables alone are a batch query: spark.sql"
        raise QueryError("the query reads no stream", f"query {draft.name}: {listed([a.stream.name for a in aliases])} are tables", hint)
    draft.windows = _windows(draft.source, draft.scope, draft.all_aliases, draft.window_arguments)


def with_stream_windows(query: Query, streams: Mapping[str, Stream], arguments: Mapping[str, str] | None = None) -> Query:
    """The query over streams whose windows have changed since it was parsed. Windows that the query gives, by hint or argument, stay, and
    so does all else of it: columns that a stream has gained or lost since then do not matter."""
    source = read_source(query.name, query.text)
    aliases = [tuple(Alias(name, r, streams[r.stream]) for name, r in branch.aliases) for branch in query.branches]
    everywhere = tuple(alias for own in aliases for alias in own)
    changed = []
    for branch, own in zip(query.branches, aliases, strict=True):
        windows = _windows(source, Scope(own, (), True), everywhere, arguments)
        changed.append(branch if windows == branch.join.windows else replace(branch, join=replace(branch.join, windows=windows)))
    return query if changed == [*query.branches] else replace(changed[0], added=tuple(changed[1:]))


def _windows(source: QuerySource, scope: Scope, everywhere: tuple[Alias, ...], arguments: Mapping[str, str] | None) -> Windows:
    """The window of each relation of a branch. Hints and arguments may repeat each other but not disagree. `everywhere`: the uses of
    streams of all branches, which they may name."""
    assigned: dict[Relation, int | None] = {}

    def assign(name: str, duration: object, where: Span | str, hint: str) -> None:
        try:
            micros = _micros(duration, hint)
            _relations_named(everywhere, name)
            for relation in _relations_named(scope.aliases, name, is_known=True):
                alias = scope.alias_of(relation)
                if alias.stream.is_table:
                    if str(name).lower() not in (alias.name.lower(), alias.stream.name.lower()):
                        continue  # the name is that of a derived table, which may have streams, too
                    raise QueryError("a window for a table", alias.stream.name, "leave it out: rows of tables have no event time")
                earlier = assigned.setdefault(relation, micros)
                if earlier != micros:
                    both = f"{scope.alias_of(relation).name}: {show_duration(earlier)} and {show_duration(micros)}"
                    raise QueryError("a relation is given two windows", both, "keep one of them")
        except QueryError as error:  # where it stands is looked up here only: there may be many hints
            place = where if isinstance(where, str) else f"{source.position_text(where[0])}: {source.quote(where)}"
            raise QueryError(error.what, f"{place} ({error.detail})" if error.detail else place, error.hint) from None

    for name, duration, span in _read_hints(source):
        assign(name, duration, span, _HINT)
    if arguments is not None and not isinstance(arguments, Mapping):
        raise QueryError("windows is a mapping", f"query {source.name}: {type(arguments).__name__}", 'write windows={"R": "5 seconds"}')
    for name, duration in (arguments or {}).items():
        assign(name, duration, f"query {source.name}, windows[{name!r}] = {duration!r}", 'write windows={"R": "5 seconds"} or "unbounded"')
    return frozenset((alias.relation, assigned.get(alias.relation, alias.stream.window)) for alias in scope.aliases)


def _relations_named(aliases: tuple[Alias, ...], name: object, is_known: bool = False) -> list[Relation]:
    """The relation of an alias, or all relations of a stream. `is_known`: another branch may have it."""
    if isinstance(name, str):
        alias = look_up(name, dict.fromkeys(part for alias in aliases for part in _names_of(alias)))
        if alias is not None:
            return [other.relation for other in aliases if alias in _names_of(other)]
        stream = look_up(name, {alias.stream.name for alias in aliases})
        if stream is not None:
            return [alias.relation for alias in aliases if alias.stream.name == stream]
    if is_known:
        return []
    names = list(dict.fromkeys(alias.name for alias in aliases))
    hint = did_you_mean(str(name), names, f"its aliases are {listed(names)}")
    raise QueryError("a window for a relation that the query does not have", "", hint)


def _names_of(alias: Alias) -> list[str]:
    """The name of a use of a stream, and those of the derived tables that it is part of.

    >>> _names_of(Alias("d.e.R", Relation("R"), Stream("R", ())))
    ['d', 'd.e', 'd.e.R']
    """
    parts = alias.name.split(".")
    return [".".join(parts[: at + 1]) for at in range(len(parts))]


def _micros(duration: object, hint: str) -> int | None:
    """The window in microseconds; None if it is unbounded."""
    if isinstance(duration, str) and duration.strip().lower() == "unbounded":
        return None
    try:
        return parse_duration(duration, "the window")  # type: ignore[arg-type]
    except OptionError as error:
        raise QueryError(error.what, "", hint) from None


def _read_hints(source: QuerySource) -> list[tuple[str, str, Span]]:
    """Name, duration and place of all WINDOW hints.

    Comments stand between tokens, so text inside strings is not mistaken for one. The hint behind SELECT, which sqlglot makes a token, is
    read as a comment too.
    """
    hints: list[tuple[str, str, Span]] = []
    edges = [0, *(e for t in source.tokens if t.token_type.name != "HINT" for e in (t.start, t.end + 1)), len(source.text)]
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        for comment in _COMMENT.finditer(source.text, start, end):
            if comment[1]:
                hints += _read_pairs(source, comment.start(2), comment.end(2))
    return hints


def _read_pairs(source: QuerySource, start: int, end: int) -> list[tuple[str, str, Span]]:
    """The pairs of all WINDOW calls in one hint comment."""
    pairs: list[tuple[str, str, Span]] = []
    at = start
    while not _REST.fullmatch(source.text, at, end):
        call = _CALL.match(source.text, at, end)
        if call is None:
            raise source.error((at, end), "a hint cannot be read", _HINT)
        span = (call.start(1), call.end())
        if call[1].upper() != "WINDOW":
            raise source.error(span, "unknown hint", f"only WINDOW is known; {_HINT}")
        inside, incomplete = call.start(2), True
        while call[2] is not None and incomplete:
            pair = _PAIR.match(source.text, inside, call.end(2))
            if pair is None:
                break
            pairs.append((pair[1] or pair[2], pair[3] if pair[3] is not None else pair[4], span))
            inside, incomplete = pair.end(), pair[5] == ","
        if incomplete:
            raise source.error(span, "a WINDOW hint cannot be read", _HINT)
        at = call.end()
    return pairs
