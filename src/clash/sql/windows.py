"""Windows of a query's relations: the stream's, unless the query says otherwise by argument or by hint.

`/*+ WINDOW(R, '5 seconds') */` may stand anywhere, several times, with several pairs. A name is an alias, else a stream
(then of all its aliases).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from clash.errors import OptionError, QueryError
from clash.model.durations import parse_duration, show_duration
from clash.model.relation import Relation
from clash.sql.name_lookup import did_you_mean, listed, look_up
from clash.sql.scope import Scope
from clash.sql.query_source import Source, Span

_COMMENT = re.compile(r"--[^\n]*|/\*(\+?)(.*?)\*/", re.DOTALL)
_CALL = re.compile(r"\s*,?\s*([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?")
_PAIR = re.compile(r"\s*(?:([A-Za-z_]\w*)|`([^`]+)`)\s*,\s*(?:'([^']*)'|\"([^\"]*)\")\s*(,|$)")
_HINT = "write /*+ WINDOW(R, '5 seconds') */ or /*+ WINDOW(R, 'unbounded') */"


def read_windows(source: Source, scope: Scope, given: Mapping[str, str] | None) -> frozenset[tuple[Relation, int | None]]:
    said: dict[Relation, tuple[int | None, str]] = {}

    def say(name: str, duration: object, where: str, hint: str) -> None:
        micros = _duration(duration, where, hint)
        for relation in _named(scope, name, where):
            held = said.setdefault(relation, (micros, where))
            if held[0] != micros:
                detail = f"{where} ({scope.of(relation).name}: {show_duration(held[0])} and {show_duration(micros)})"
                raise QueryError("a relation is given two windows", detail, "keep one of them")

    for name, duration, span in _hints(source):
        say(name, duration, f"{source.place(span[0])}: {source.piece(span)}", _HINT)
    if given is not None and not isinstance(given, Mapping):
        raise QueryError("windows is a mapping", f"query {source.name}: {type(given).__name__}", 'write windows={"R": "5 seconds"}')
    for name, duration in (given or {}).items():
        say(name, duration, f"query {source.name}, windows[{name!r}] = {duration!r}", 'write windows={"R": "5 seconds"} or "unbounded"')
    return frozenset((a.relation, said[a.relation][0] if a.relation in said else a.stream.window) for a in scope.aliases)


def _named(scope: Scope, name: object, where: str) -> list[Relation]:
    if isinstance(name, str):
        alias = scope.find(name)
        if alias is not None:
            return [alias.relation]
        stream = look_up(name, {a.stream.name for a in scope.aliases})
        if stream is not None:
            return [a.relation for a in scope.aliases if a.stream.name == stream]
    names = [a.name for a in scope.aliases]
    hint = did_you_mean(str(name), names, f"its aliases are {listed(names)}")
    raise QueryError("a window for a relation that the query does not have", where, hint)


def _duration(text: object, where: str, hint: str) -> int | None:
    if isinstance(text, str) and text.strip().lower() == "unbounded":
        return None
    try:
        return parse_duration(text, "the window")  # type: ignore[arg-type]
    except OptionError as error:
        raise QueryError(error.what, where, hint) from None


def _hints(source: Source) -> list[tuple[str, str, Span]]:
    """Comments stand between the tokens (but the one hint that sqlglot knows is a token), never inside a string."""
    found: list[tuple[str, str, Span]] = []
    edges = [0, *(e for t in source.tokens if t.token_type.name != "HINT" for e in (t.start, t.end + 1)), len(source.text)]
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        for comment in _COMMENT.finditer(source.text, start, end):
            if comment[1]:
                found += _pairs(source, comment.start(2), comment.end(2))
    return found


def _pairs(source: Source, start: int, end: int) -> list[tuple[str, str, Span]]:
    pairs: list[tuple[str, str, Span]] = []
    at = start
    while source.text[at:end].strip():
        call = _CALL.match(source.text, at, end)
        if call is None:
            raise source.error((at, end), "a hint cannot be read", _HINT)
        span = (call.start(1), call.end())
        if call[1].upper() != "WINDOW":
            raise source.error(span, "unknown hint", f"only WINDOW is known; {_HINT}")
        inside, more = call.start(2), True
        while call[2] is not None and more:
            pair = _PAIR.match(source.text, inside, call.end(2))
            if pair is None:
                break
            pairs.append((pair[1] or pair[2], pair[3] if pair[3] is not None else pair[4], span))
            inside, more = pair.end(), pair[5] == ","
        else:
            more = call[2] is None
        if more:
            raise source.error(span, "a WINDOW hint cannot be read", _HINT)
        at = call.end()
    return pairs
