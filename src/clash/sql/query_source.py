"""The text of one query with its tokens, and where in it a piece stands.

sqlglot keeps positions on identifiers, literals and most function names only, so the span of any other node is that of
what is below it, grown to balanced parentheses.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from clash.errors import QueryError

LONGEST_TEXT = 1_000_000
DEEPEST_NESTING = 24  # sqlglot needs some 20 stack frames for each parenthesis
_PIECE = 60
_OPEN, _CLOSE = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE), (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
# words before the first place below a node that belong to it
_LEADING: tuple[tuple[type, tuple[str, ...]], ...] = (
    (exp.Case, ("CASE", "WHEN")),
    (exp.Not, ("NOT", "!")),
    (exp.Neg, ("-",)),
    (exp.Interval, ("INTERVAL", "-")),
    (exp.Cast, ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")),
    (exp.Exists, ("EXISTS", "SELECT", "(")),
    (exp.Query, ("SELECT", "(")),
    (exp.TableSample, ("TABLESAMPLE", "(")),
)
# words by which a node that has no place at all is found
_WORDS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (exp.Placeholder, ("?", ":")),
    (exp.Parameter, ("$", "@")),
    (exp.Interval, ("INTERVAL",)),
    (exp.Boolean, ("TRUE", "FALSE")),
    (exp.Null, ("NULL",)),
)

_STOPS = {
    *("AND", "OR", ",", ";", "AS", "THEN", "ELSE", "END", "WHEN", "+", "-", "*", "/", "%", "=", "<", ">", "<=", ">=", "<>", "||"),
    *("FROM", "WHERE", "JOIN", "INNER", "CROSS", "NATURAL", "GROUP BY", "ORDER BY", "LIMIT", "HAVING"),
}  # fmt: skip

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Source:
    name: str
    text: str
    tokens: tuple[Token, ...]

    def place(self, offset: int) -> str:
        line = self.text.count("\n", 0, offset) + 1
        column = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        return f"query {self.name}, line {line}, column {column}"

    def piece(self, span: Span) -> str:
        piece = " ".join(self.text[span[0] : span[1]].split())
        return piece if len(piece) <= _PIECE else piece[: _PIECE - 1] + "…"

    def error(self, where: exp.Expression | Span, what: str, hint: str, note: str = "") -> QueryError:
        """`note` says more about the piece, e.g. its type."""
        span = where if isinstance(where, tuple) else self.span(where)
        piece = self.piece(span)
        detail = self.place(span[0]) + (f": {piece}" if piece else "")
        return QueryError(what, f"{detail} ({note})" if note else detail, hint)

    def index_at(self, offset: int) -> int:
        """The token that holds `offset`, or the next one."""
        return bisect.bisect_left(self.tokens, offset, key=lambda token: token.end)

    def span(self, node: exp.Expression) -> Span:
        """Half-open character range of `node`; the whole text where nothing below it has a place."""
        places = [n.meta for n in node.walk() if "start" in n.meta]
        if not places:
            start, end = self.token_span(*(word for kind, words in _WORDS if isinstance(node, kind) for word in words))
            return (start, self.tokens[self._to_end(self.index_at(start))].end + 1) if isinstance(node, exp.Interval) else (start, end)
        low = self.index_at(min(p["start"] for p in places))
        high = self.index_at(max(p["end"] for p in places))
        low, high = self._balance(low, high)
        leading = list(next((words for kind, words in _LEADING if isinstance(node, kind)), ()))
        named = isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Case)
        if low and self.tokens[low - 1].text.upper() in leading:
            while low and self.tokens[low - 1].text.upper() in leading:
                low -= 1
                leading.remove(self.tokens[low].text.upper())
            low, high = self._balance(low, high)
        elif named and "start" not in node.meta and low > 1 and self.tokens[low - 1].token_type is TokenType.L_PAREN:
            low, high = self._balance(low - 2, high)  # a function whose name sqlglot gave no place
        right = node.args.get("expression") if isinstance(node, exp.Binary) else None
        if isinstance(node, exp.Interval | exp.In) or isinstance(right, exp.Interval | exp.Boolean | exp.Null):
            placed = right is None or any("start" in n.meta for n in right.walk())
            high = self._to_end(high if placed else high + 1)  # the operator itself is no end
        if isinstance(node, exp.Case) and high + 1 < len(self.tokens) and self.tokens[high + 1].text.upper() == "END":
            high += 1
        return (self.tokens[low].start, self.tokens[high].end + 1)

    def _to_end(self, high: int) -> int:
        """Over what has no place (TRUE, NULL, an INTERVAL's number) to where an operand must end."""
        depth = 0
        for at in range(high + 1, len(self.tokens)):
            token = self.tokens[at]
            depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
            if depth < 0 or (depth == 0 and token.text.upper() in _STOPS):
                return at - 1
        return len(self.tokens) - 1

    def _balance(self, low: int, high: int) -> tuple[int, int]:
        depth = missing = 0
        for token in self.tokens[low : high + 1]:
            depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
            missing = max(missing, -depth)
        while missing and low:
            low -= 1
            opens = self.tokens[low].token_type in _OPEN
            missing -= opens
            depth += opens
        while depth > 0 and high + 1 < len(self.tokens):
            high += 1
            depth += (self.tokens[high].token_type in _OPEN) - (self.tokens[high].token_type in _CLOSE)
        return low, high

    def token_span(self, *words: str) -> Span:
        """Where the first of `words` stands as a token of its own."""
        for token in self.tokens:
            if token.text.upper() in words and token.token_type is not TokenType.STRING:
                return (token.start, token.end + 1)
        return (0, len(self.text))


def read_source(name: str, text: object) -> Source:
    """Checks that `text` is something that can be parsed at all, and cuts it into tokens."""
    if not isinstance(text, str):
        raise QueryError("a query is text", f"query {name} is {type(text).__name__}", 'write e.g. "SELECT R.a FROM R JOIN S ON R.a = S.a"')
    if len(text) > LONGEST_TEXT:
        raise QueryError("the query is too long", f"query {name} has {len(text):,} characters", f"{LONGEST_TEXT:,} characters at most")
    if not text.strip():
        raise QueryError("the query is empty", f"query {name}", "write SELECT … FROM …, or the short form R(a), S(a,b)")
    bare = Source(name, text, ())
    for at, char in enumerate(text):
        if (char < " " and char not in "\t\n\r") or "\ud800" <= char <= "\udfff":
            raise QueryError("the query holds a character that is not text", f"{bare.place(at)}: {char!r}", "remove it")
    try:
        tokens = tuple(Spark().tokenize(text))
    except (SqlglotError, RecursionError, ValueError, IndexError):
        raise bare.error(_unclosed(text), "a quote or comment is not closed", "close it, or remove it") from None
    if all(token.token_type is TokenType.SEMICOLON for token in tokens):
        raise QueryError("the query is empty", f"query {name} holds nothing but comments", "write SELECT … FROM …")
    source = Source(name, text, tokens)
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        if depth > DEEPEST_NESTING:
            raise source.error((token.start, token.end + 1), "the query is nested too deeply", f"{DEEPEST_NESTING} levels at most")
    return source


def _unclosed(text: str) -> Span:
    """From the quote or comment that the tokeniser did not see the end of, to the end of its line."""
    at, opened = 0, 0
    while at < len(text):
        close = {"'": "'", '"': '"', "`": "`", "/": "*/", "-": "\n"}.get(text[at])
        if (close == "*/" and text[at : at + 2] != "/*") or (close == "\n" and text[at : at + 2] != "--") or close is None:
            at += 1
            continue
        opened, at = at, at + 1
        while at < len(text) and not text.startswith(close, at):
            at += 2 if text[at] == "\\" and close in "'\"" else 1
        if at >= len(text):
            break
        at += len(close)
    end = text.find("\n", opened)
    return (opened, len(text) if end < 0 else end)
