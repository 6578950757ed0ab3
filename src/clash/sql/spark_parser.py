"""sqlglot's parser of Spark SQL, without what it drops or prints.

A unary plus has no effect in sqlglot; in Spark it makes a double of a text, so here it is a node. A type keeps its words. What sqlglot logs
is of no use to a user: what it cannot parse is refused with a message of our own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from clash.sql.named_functions import NAMED

TYPE_WORDS = "type_words"  # where the metadata of a DataType has the words of the text that it stands for
TEXT_RANGE = "text_range"  # where the metadata of a SELECT or subquery has the range of characters that it stands at
_parsing: ContextVar[bool] = ContextVar("clash_is_parsing", default=False)


class UnaryPlus(exp.Unary):
    """`+x`."""


# Functions that are converted to expressions of our own, or that other passes look for. sqlglot would turn some of the others into those
# of other databases (TO_CHAR into a cast, formats of dates into other ones): it leaves a call of any other name as it is written.
_CONVERTED = """
ABS AND BOOLEAN CEIL CEILING CHARACTER_LENGTH CHARINDEX CHAR_LENGTH COALESCE CONCAT DATE DAY DAYOFMONTH DIV DOUBLE EXPLODE
EXPLODE_OUTER EXTRACT FLOAT FLOOR GREATEST HOUR IF IFNULL IIF ILIKE INLINE INT LCASE LEAST LEN LENGTH LIKE LOWER LTRIM MINUTE MOD
MONTH NULLIF NVL OR POSEXPLODE POSEXPLODE_OUTER ROUND RTRIM SECOND STACK STRING STRPOS STRUCT SUBSTR SUBSTRING TIMESTAMP
TIMESTAMP_LTZ TIMESTAMP_NTZ TRIM UCASE UNNEST UPPER YEAR
"""
_AGGREGATES = """
ANY_VALUE APPROX_COUNT_DISTINCT APPROX_TOP_K ARRAY_AGG AVG BITMAP_CONSTRUCT_AGG BITMAP_OR_AGG BIT_AND BIT_OR BIT_XOR BOOL_AND
BOOL_OR COLLECT_LIST COLLECT_SET CORR COUNT COUNT_IF COVAR_POP COVAR_SAMP CUME_DIST DENSE_RANK FIRST FIRST_VALUE GROUPING
GROUPING_ID KURTOSIS LAG LAST LAST_VALUE LEAD MAX MAX_BY MEDIAN MIN MIN_BY MODE NTH_VALUE NTILE PERCENTILE_CONT PERCENTILE_DISC
PERCENT_RANK RANK REGR_AVGX REGR_AVGY REGR_COUNT REGR_INTERCEPT REGR_R2 REGR_SLOPE REGR_SXX REGR_SXY REGR_SYY SKEWNESS STDDEV
STDDEV_POP STDDEV_SAMP SUM VARIANCE VAR_POP VAR_SAMP
"""


class _Parser(SparkParser):
    FUNCTIONS: ClassVar = {
        name: build for name, build in SparkParser.FUNCTIONS.items() if name in f"{_CONVERTED}{_AGGREGATES}".split() and name not in NAMED
    }
    UNARY_PARSERS: ClassVar = {
        **SparkParser.UNARY_PARSERS,
        TokenType.PLUS: lambda self: self.expression(UnaryPlus(this=self._parse_unary())),
    }

    _select_starts: ClassVar[list[int]] = []  # replaced by one list per parser

    def _parse_select_query(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """Keeps where a SELECT or subquery stands: sqlglot records no position of keywords and parentheses."""
        start = self._index
        self._select_starts = [*self._select_starts, start]  # type: ignore[misc]
        found = super()._parse_select_query(*args, **kwargs)
        self._select_starts = self._select_starts[:-1]  # type: ignore[misc]
        self._keep_range(found, start)
        return found

    def _parse_set_operations(self, this: exp.Expr | None) -> exp.Expr | None:
        """The first SELECT of a set operation is read by the call that returns the operation."""
        if self._select_starts and isinstance(this, exp.Select):
            self._keep_range(this, self._select_starts[-1])
        return super()._parse_set_operations(this)

    def _keep_range(self, found: exp.Expr | None, start: int) -> None:
        if isinstance(found, exp.Query) and TEXT_RANGE not in found.meta and self._index > start:
            found.meta[TEXT_RANGE] = (self._tokens[start].start, self._tokens[self._index - 1].end + 1)

    def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """Keeps the words of a type: sqlglot maps types of other databases, and TIMESTAMP WITHOUT TIME ZONE, to some type of Spark."""
        start = self._index
        found = super()._parse_types(*args, **kwargs)
        if isinstance(found, exp.DataType):
            found.meta[TYPE_WORDS] = " ".join(map(_word, self._tokens[start : self._index]))
        return found


def _word(token: Token) -> str:
    return f"'{token.text}'" if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) else token.text.upper()


class _NotWhileParsing(logging.Filter):
    """Drops what sqlglot logs while we parse; a program that uses sqlglot itself keeps its log."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _parsing.get()


logging.getLogger("sqlglot").addFilter(_NotWhileParsing())


def _with_time_windows(tokens: Sequence[Token]) -> Iterator[Token]:
    """`window(` is a function of Spark's; sqlglot takes the word for the beginning of a WINDOW clause."""
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.token_type is TokenType.WINDOW and following is not None and following.token_type in (TokenType.L_PAREN, TokenType.DOT):
            yield Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end, token.comments)
        else:
            yield token


def parse_statements(tokens: Sequence[Token], text: str) -> list[exp.Expression]:
    """The statements of a text that is already split into tokens; raises sqlglot's errors, and whatever else it fails with."""
    silenced = _parsing.set(True)
    try:
        statements = _Parser(dialect=Spark()).parse(list(_with_time_windows(tokens)), text)
    finally:
        _parsing.reset(silenced)
    return [statement for statement in statements if isinstance(statement, exp.Expression) and not isinstance(statement, exp.Semicolon)]
