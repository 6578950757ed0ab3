"""The text of one query with its tokens, and the position of syntax nodes in it.

sqlglot records positions of identifiers, literals and most function names only. The span of any other node is that of the nodes below it,
extended to balanced parentheses and to the keywords that belong to the node.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from clash.errors import OptionError, QueryError
from clash.model.stream import check_label
from clash.sql.spark_parser import TEXT_RANGE, UnaryPlus

MAX_TEXT_LENGTH = 1_000_000
MAX_NESTING = 24  # sqlglot needs about 20 stack frames for each parenthesis
_MAX_QUOTE = 60  # characters of the text that an error quotes
_OPEN, _CLOSE = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE), (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
# keywords that belong to a node and stand before the first recorded position below it
_LEADING: tuple[tuple[type, tuple[str, ...]], ...] = (
    (exp.Case, ("CASE", "WHEN")),
    (exp.Not, ("NOT", "!")),
    (exp.Neg, ("-",)),
    (UnaryPlus, ("+",)),
    (exp.Interval, ("INTERVAL", "-")),
    (exp.Cast, ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")),
    (exp.Exists, ("EXISTS", "SELECT", "(")),
    (exp.Query, ("SELECT", "(")),
    (exp.TableSample, ("TABLESAMPLE", "(")),
)
# keywords by which a node without any recorded position is found
_KEYWORDS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (exp.Placeholder, ("?", ":")),
    (exp.Parameter, ("$", "@")),
    (exp.Interval, ("INTERVAL",)),
    (exp.Boolean, ("TRUE", "FALSE")),
    (exp.Null, ("NULL",)),
)
# words at which an operand ends
_OPERAND_ENDS = {
    *("AND", "OR", ",", ";", "AS", "THEN", "ELSE", "END", "WHEN", "+", "-", "*", "/", "%", "=", "<", ">", "<=", ">=", "<>", "||"),
    *("FROM", "WHERE", "JOIN", "INNER", "CROSS", "NATURAL", "GROUP BY", "ORDER BY", "LIMIT", "HAVING"),
}  # fmt: skip

# tokens whose text is what the user wrote between quotes: never a keyword, whatever it says
_QUOTED = {
    TokenType.STRING, TokenType.IDENTIFIER, TokenType.RAW_STRING, TokenType.HEX_STRING, TokenType.BIT_STRING, TokenType.BYTE_STRING,
    TokenType.NATIONAL_STRING, TokenType.UNICODE_STRING, TokenType.HEREDOC_STRING,
}  # fmt: skip

Span = tuple[int, int]  # half-open range of characters


def keyword(token: Token | None) -> str:
    """The word or sign of a token, in upper case; empty for a string, a quoted name, and where there is no token.

    Everything that compares tokens with keywords or signs does so by this function: `','` and `'FROM'` are values.
    """
    return "" if token is None or token.token_type in _QUOTED else token.text.upper()


@dataclass(frozen=True, slots=True)
class QuerySource:
    """The text of a query, as errors refer to it."""

    name: str
    text: str
    tokens: tuple[Token, ...]

    def position_text(self, offset: int) -> str:
        """The position of a character, for people."""
        line = self.text.count("\n", 0, offset) + 1
        column = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        return f"query {self.name}, line {line}, column {column}"

    def quote(self, span: Span) -> str:
        """The quoted text of a span, on one line and shortened."""
        text = " ".join(self.text[span[0] : span[1]].split())
        return text if len(text) <= _MAX_QUOTE else text[: _MAX_QUOTE - 1] + "…"

    def error(self, where: exp.Expr | Span, what: str, hint: str, note: str = "") -> QueryError:
        """An error at a node or span; `note` adds a property of it, e.g. its type."""
        span = where if isinstance(where, tuple) else self.span(where)
        quote = self.quote(span)
        detail = self.position_text(span[0]) + (f": {quote}" if quote else "")
        return QueryError(what, f"{detail} ({note})" if note else detail, hint)

    def checked_label(self, kind: str, name: str, where: exp.Expr | Span) -> str:
        """The name of an alias or an output, if it is valid."""
        try:
            return check_label(kind, name)
        except OptionError as error:
            raise self.error(where, error.what, f"write … AS name; {error.hint}") from None

    def index_at(self, offset: int) -> int:
        """The index of the token that contains `offset`, or of the next token."""
        return bisect.bisect_left(self.tokens, offset, key=lambda token: token.end)

    def span(self, node: exp.Expr) -> Span:
        """Where `node` stands; the whole text if it cannot be found."""
        if TEXT_RANGE in node.meta:
            start, end = node.meta[TEXT_RANGE]
            return (start, end)
        positions = [n.meta for n in node.walk() if "start" in n.meta]
        if not positions:
            start, end = self.token_span(*(word for kind, words in _KEYWORDS if isinstance(node, kind) for word in words))
            return (start, self.tokens[self._operand_end(self.index_at(start))].end + 1) if isinstance(node, exp.Interval) else (start, end)
        low = self.index_at(min(p["start"] for p in positions))
        high = self.index_at(max(p["end"] for p in positions))
        low, high = self._balance(low, high)
        leading = list(next((words for kind, words in _LEADING if isinstance(node, kind)), ()))
        named = isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Case)
        if low and keyword(self.tokens[low - 1]) in leading:
            while low and keyword(self.tokens[low - 1]) in leading:
                low -= 1
                leading.remove(keyword(self.tokens[low]))
            low, high = self._balance(low, high)
        elif named and "start" not in node.meta and low > 1 and self.tokens[low - 1].token_type is TokenType.L_PAREN:
            low, high = self._balance(low - 2, high)  # a function without a recorded position of its name
        right = node.args.get("expression") if isinstance(node, exp.Binary) else None
        if isinstance(node, exp.Interval | exp.In) or isinstance(right, exp.Interval | exp.Boolean | exp.Null):
            has_position = right is None or any("start" in n.meta for n in right.walk())
            high = self._operand_end(high if has_position else high + 1)  # skips the operator, which is itself in _OPERAND_ENDS
        if isinstance(node, exp.Case) and high + 1 < len(self.tokens) and keyword(self.tokens[high + 1]) == "END":
            high += 1
        return (self.tokens[low].start, self.tokens[high].end + 1)

    def _operand_end(self, high: int) -> int:
        """The last token of the operand around token `high`, over tokens without position (TRUE, NULL, the number of an INTERVAL)."""
        depth = 0
        for at in range(high + 1, len(self.tokens)):
            token = self.tokens[at]
            depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
            if depth < 0 or (depth == 0 and keyword(token) in _OPERAND_ENDS):
                return at - 1
        return len(self.tokens) - 1

    def _balance(self, low: int, high: int) -> tuple[int, int]:
        """A range of tokens, extended on both sides until its parentheses are balanced."""
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
        """Where the first token stands that is one of `words`; the whole text if there is none."""
        for token in self.tokens:
            if keyword(token) in words:
                return (token.start, token.end + 1)
        return (0, len(self.text))

    def clause_span(self, select: exp.Query, *words: str) -> Span:
        """Where the first of `words` stands that belongs to this SELECT itself, not to a part of it in parentheses; else the SELECT."""
        span = self.span(select)
        at = self.clause_index(select, *words)
        return span if at is None else (self.tokens[at].start, self.tokens[at].end + 1)

    def clause_index(self, select: exp.Query, *words: str) -> int | None:
        """The index of the token that `clause_span` finds; None if there is none."""
        start, end = self.span(select)
        depth = 0
        for at in range(self.index_at(start), len(self.tokens)):
            token = self.tokens[at]
            if token.start >= end:
                break
            depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
            if depth == 0 and keyword(token) in words:
                return at
        return None


def adjacent_strings(source: QuerySource, nodes: list[exp.Expression]) -> str | None:
    """The text of adjacent string literals, which sqlglot parses as a CONCAT; None if the nodes are something else.

    `'a' 'b'` is `ab`; without a space between them, `'it''s'` is one literal that contains a quote.
    """
    at = source.index_at(nodes[0].meta["start"]) if nodes and "start" in nodes[0].meta else len(source.tokens)
    tokens = source.tokens[at : at + len(nodes)]
    if len(tokens) < max(2, len(nodes)) or any(token.token_type is not TokenType.STRING for token in tokens):
        return None
    text = tokens[0].text
    for before, token in pairwise(tokens):
        text += (source.text[token.start] if before.end + 1 == token.start else "") + token.text
    return text


def read_source(name: str, text: object) -> QuerySource:
    """Tokenizes the text, after checks that protect sqlglot from what it cannot handle: length, nesting, control characters."""
    if not isinstance(text, str):
        raise QueryError("a query is text", f"query {name} is {type(text).__name__}", 'write e.g. "SELECT R.a FROM R JOIN S ON R.a = S.a"')
    if len(text) > MAX_TEXT_LENGTH:
        raise QueryError("the query is too long", f"query {name} has {len(text):,} characters", f"{MAX_TEXT_LENGTH:,} characters at most")
    if not text.strip():
        raise QueryError("the query is empty", f"query {name}", "write SELECT … FROM …, or the short form R(a), S(a,b)")
    untokenized = QuerySource(name, text, ())
    for at, char in enumerate(text):
        if (char < " " and char not in "\t\n\r") or "\ud800" <= char <= "\udfff":
            raise QueryError("the query holds a character that is not text", f"{untokenized.position_text(at)}: {char!r}", "remove it")
    try:
        tokens = tuple(Spark().tokenize(text))
    except (SqlglotError, RecursionError, ValueError, IndexError):
        raise untokenized.error(_unclosed(text), "a quote or comment is not closed", "close it, or remove it") from None
    if all(token.token_type is TokenType.SEMICOLON for token in tokens):
        raise QueryError("the query is empty", f"query {name} holds nothing but comments", "write SELECT … FROM …")
    source = QuerySource(name, text, tokens)
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        if depth > MAX_NESTING:
            raise source.error((token.start, token.end + 1), "the query is nested too deeply", f"{MAX_NESTING} levels at most")
    return source


def _unclosed(text: str) -> Span:
    """From the start of the quote or comment that is not closed to the end of its line."""
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
