"""The grammar of the paper's short form `R(a), S(a,b), T(b)`: a natural join on equal attribute names."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from clash.sql.query_source import QuerySource, Span, keyword

_HINT = "the short form is R(a), S(a,b), T(b)"


@dataclass(frozen=True, slots=True)
class ShortRelation:
    """One relation of a short form."""

    stream: str
    span: Span
    columns: tuple[tuple[str, Span], ...]


def is_short_form(source: QuerySource) -> bool:
    """Whether the text begins with a name and a parenthesis, as no SELECT does."""
    tokens = source.tokens
    if len(tokens) < 2 or keyword(tokens[0]) in ("SELECT", "FROM", "WITH", "VALUES"):
        return False
    return _is_name(tokens[0]) and tokens[1].token_type is TokenType.L_PAREN


def parse_short_form(source: QuerySource) -> tuple[ShortRelation, ...]:
    """A recursive descent parser over the tokens."""
    relations: list[ShortRelation] = []
    tokens, at = source.tokens, 0

    def expect(what: str, fits: bool) -> Token:
        nonlocal at
        if at >= len(tokens):
            raise source.error((len(source.text.rstrip()), len(source.text)), f"the short form ends before {what}", _HINT)
        if not fits:
            token = tokens[at]
            raise source.error((token.start, token.end + 1), f"the short form expects {what} here", _HINT)
        at += 1
        return tokens[at - 1]

    def next_is(*types: TokenType) -> bool:
        return at < len(tokens) and tokens[at].token_type in types

    def name() -> tuple[str, Span]:
        token = expect("a name", at < len(tokens) and _is_name(tokens[at]))
        return token.text, (token.start, token.end + 1)

    while True:
        stream, span = name()
        expect("an opening parenthesis", next_is(TokenType.L_PAREN))
        columns = [name()]
        while next_is(TokenType.COMMA):
            at += 1
            columns.append(name())
        expect("a comma or a closing parenthesis", next_is(TokenType.R_PAREN))
        _refuse_repeats(source, columns)
        relations.append(ShortRelation(stream, span, tuple(columns)))
        if at >= len(tokens) or (next_is(TokenType.SEMICOLON) and at + 1 == len(tokens)):
            return tuple(relations)
        expect("a comma between relations", next_is(TokenType.COMMA))


def _refuse_repeats(source: QuerySource, columns: list[tuple[str, Span]]) -> None:
    seen: set[str] = set()
    for column, span in columns:
        if column.lower() in seen:
            raise source.error(span, "an attribute is listed twice for one relation", "list every attribute once")
        seen.add(column.lower())


def _is_name(token: Token) -> bool:
    """Keywords are valid names in the short form, because its grammar has none."""
    return token.token_type is TokenType.IDENTIFIER or keyword(token).isidentifier()
