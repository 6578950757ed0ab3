"""The keywords of a join, read from the tokens: sqlglot's tree does not distinguish a comma from CROSS JOIN."""

from __future__ import annotations

from sqlglot import exp

from clash.sql.query_source import QuerySource, Span, keyword

_JOIN_WORDS = {"JOIN", "CROSS", "INNER", "NATURAL", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "ASOF", ",", "STRAIGHT_JOIN"}
_UNSUPPORTED_KINDS = {
    "SEMI": "semi", "ANTI": "anti", "ASOF": "ASOF", "STRAIGHT_JOIN": "straight",
    "LEFT": "outer", "RIGHT": "outer", "FULL": "outer", "OUTER": "outer",
}  # fmt: skip
_ALTERNATIVES = {
    "semi": "join it and select the columns of the other side; every match gives a row",
    "anti": "a stream never ends, so absence is never certain",
    "outer": "write an inner JOIN; a stream never ends, so a missing match is never certain",
}


def join_words(source: QuerySource, table: exp.Expression) -> tuple[list[str], Span]:
    """The keywords of the join in front of a table, and their span including the first token of the table."""
    at = source.index_at(source.span(table)[0])
    end = source.tokens[at].end + 1
    words: list[str] = []
    while at and keyword(source.tokens[at - 1]) in _JOIN_WORDS:
        at -= 1
        words.insert(0, keyword(source.tokens[at]))
    return words, (source.tokens[at].start, end)


def refuse_kind(source: QuerySource, join: exp.Join, words: list[str], span: Span) -> None:
    """Only inner joins are supported, and only CROSS JOIN, NATURAL JOIN and a comma may lack a condition."""
    all_words = [*words, *(str(join.args.get(key) or "").upper() for key in ("side", "method", "kind"))]
    kind = next((_UNSUPPORTED_KINDS[word] for word in _UNSUPPORTED_KINDS if word in all_words), None)
    if kind is not None:
        raise source.error(span, f"{kind} joins are not supported", _ALTERNATIVES.get(kind, "write an inner JOIN with ON"))
    supported = {"this", "side", "kind", "method", "on", "using"}
    if any(value for key, value in join.args.items() if key not in supported):
        raise source.error(span, "this kind of join is not supported", "write an inner JOIN with ON")
    if "," in words or "CROSS" in words or "NATURAL" in words:
        return
    after = source.index_at(source.span(join.this)[1] - 1) + 1
    if after >= len(source.tokens) or keyword(source.tokens[after]) not in ("ON", "USING"):
        raise source.error(span, "a JOIN has no ON or USING", "add ON …, or write CROSS JOIN if every pair is meant")
