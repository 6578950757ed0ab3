"""Durations, types, streams, layouts and expressions."""

from __future__ import annotations

from threading import TIMEOUT_MAX
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clash.codec import Codec
from clash.errors import OptionError
from clash.model.durations import LONGEST, parse_duration, parse_timeout, show_duration
from clash.model.expressions import Call, Col, Expr, Lit, columns, relations
from clash.model.layout import ALL, ONE, Layout
from clash.model.relation import Attribute, Relation
from clash.model.stream import Stream
from clash.model.types import exact, family, is_atomic, is_numeric, joinable, normalise

NAMES = st.text("abcxyz_", min_size=1, max_size=4)
RELATIONS = st.builds(Relation, NAMES, st.integers(0, 3))
TYPES = ["tinyint", "smallint", "int", "bigint", "float", "double", "string", "boolean", "binary", "date", "timestamp", "timestamp_ntz"]

EXPRESSION: Codec[Expr] = Codec(Expr)
LAYOUT: Codec[Layout] = Codec(Layout)


# ---- durations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("5 seconds", 5_000_000),
        ("1 second", 1_000_000),
        ("0 seconds", 0),
        ("1.5 s", 1_500_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("1 hour, 30 minutes", 5_400_000_000),
        ("2h", 7_200_000_000),
        ("250ms", 250_000),
        ("3 US", 3),
        (" 1  Day ", 86_400_000_000),
        ("2 weeks", 1_209_600_000_000),
    ],
)
def test_durations(text: str, micros: int) -> None:
    assert parse_duration(text, "the window") == micros


@given(st.integers(0, LONGEST))
def test_duration_round_trip(micros: int) -> None:
    assert parse_duration(show_duration(micros), "the window") == pytest.approx(micros, abs=0 if micros < 2**53 else 64)


def test_timeouts() -> None:
    """Seconds, or a duration; a timeout longer than a lock can wait for is cut to that."""
    given = [None, 0, 1.5, "1 second", "250ms", float("inf")]
    assert [parse_timeout(value, "the timeout") for value in given] == [None, 0.0, 1.5, 1.0, 0.25, TIMEOUT_MAX]


@pytest.mark.parametrize("wrong", ["soon", "1", True, -1, float("nan"), [1], b"1 second"])
def test_wrong_timeouts(wrong: Any) -> None:
    with pytest.raises(OptionError, match="the timeout") as caught:
        parse_timeout(wrong, "the timeout")
    assert caught.value.detail
    assert caught.value.hint


def test_durations_are_shown_in_the_largest_whole_unit() -> None:
    assert [show_duration(m) for m in (None, 0, 1, 1_000_000, 90_000_000, 604_800_000_000)] == [
        "unbounded",
        "0 seconds",
        "1 microsecond",
        "1 second",
        "90 seconds",
        "1 week",
    ]


@pytest.mark.parametrize(
    "text", ["", " ", "5", "seconds", "-5 seconds", "5 secondss", "5 months", "5 seconds x", "∞", "٥ seconds", "1e3 s"]
)
def test_malformed_durations(text: str) -> None:
    with pytest.raises(OptionError) as error:
        parse_duration(text, "the window of stream R")
    assert error.value.what.startswith("the window of stream R")
    assert "5 seconds" in error.value.hint


@pytest.mark.parametrize("value", [5, None, 1.5, ["5 seconds"], b"5 seconds"])
def test_durations_are_text(value: Any) -> None:
    with pytest.raises(OptionError):
        parse_duration(value, "epoch")


def test_too_long() -> None:
    with pytest.raises(OptionError) as error:
        parse_duration("99999999999999999999 weeks", "the window")
    assert error.value.what == "the window is too long"
    with pytest.raises(OptionError):
        parse_duration("9" * 400 + " weeks", "the window")


# ---- types ---------------------------------------------------------------------------------------------------


def test_canonical_spelling() -> None:
    spellings = [normalise(t) for t in ("LONG", "Integer", " short ", "byte", "real", "DECIMAL", "decimal(10, 2)", "varchar(5)", "char(1)")]
    assert spellings == ["bigint", "int", "smallint", "tinyint", "float", "decimal(10,0)", "decimal(10,2)", "string", "string"]
    assert normalise("array<int>") == "array<int>"


@given(st.sampled_from(TYPES), st.sampled_from(TYPES), st.sampled_from(TYPES))
def test_exact_is_an_equivalence(a: str, b: str, c: str) -> None:
    assert exact(a, a)
    assert exact(a, b) == exact(b, a)
    assert joinable(a, b) == joinable(b, a)
    assert not exact(a, b) or joinable(a, b)
    if exact(a, b) and exact(b, c):
        assert exact(a, c)


def test_which_types_can_be_joined() -> None:
    assert exact("int", "bigint")
    assert not exact("int", "double")
    assert joinable("int", "double")
    assert joinable("int", "decimal(10,2)")
    assert joinable("decimal(10,2)", "decimal(10,3)")
    assert not exact("decimal(10,2)", "decimal(10,3)")
    assert joinable("date", "timestamp")
    assert not joinable("string", "int")
    assert not joinable("boolean", "int")
    assert not joinable("array<int>", "array<int>")
    assert joinable("unknown", "string")
    assert (family("tinyint"), is_numeric("decimal(3,1)"), is_numeric("string"), is_atomic("map<int,int>")) == (
        "integer",
        True,
        False,
        False,
    )


# ---- streams -------------------------------------------------------------------------------------------------


def test_a_stream() -> None:
    stream = Stream.of("R", {"a": "LONG", "ts": "timestamp"}, time="ts", window="5 seconds", lateness="0 seconds", idle="1 minute")
    assert stream.columns == (("a", "bigint"), ("ts", "timestamp"))
    assert (stream.time, stream.window, stream.lateness, stream.idle, stream.keep) == ("ts", 5_000_000, 0, 60_000_000, "needed")
    assert (stream.type_of("a"), stream.type_of("b")) == ("bigint", None)
    assert Stream.of("R", {"a": "int"}).window is None


@pytest.mark.parametrize(
    ("name", "kinds", "options", "what"),
    [
        ("", {"a": "int"}, {}, "not a valid stream name"),
        ("../R", {"a": "int"}, {}, "not a valid stream name"),
        ("R" * 101, {"a": "int"}, {}, "not a valid stream name"),
        ("R", {}, {}, "a stream needs at least one column"),
        ("R", {"a": "int"}, {"time": "ts"}, "the time column is not a column of the stream"),
        ("R", {"a": "int"}, {"time": "a"}, "the time column is not a timestamp"),
        ("R", {"a": "int"}, {"keep": "some"}, "unknown value of keep"),
        ("R", {"a": "int"}, {"window": "soon"}, "the window of stream R is not a duration"),
        ("R", {"a": "int"}, {"lateness": 5}, "the lateness of stream R is not a duration"),
        ("R", {"a": "int"}, {"idle": "5 parsecs"}, "the idle time of stream R has an unknown unit of time"),
    ],
)
def test_streams_that_are_refused(name: str, kinds: dict[str, str], options: dict[str, Any], what: str) -> None:
    with pytest.raises(OptionError) as error:
        Stream.of(name, kinds, **options)
    assert error.value.what == what
    assert error.value.hint


# ---- layouts and expressions ---------------------------------------------------------------------------------


HOT = st.lists(st.integers(0, (1 << 32) - 1), max_size=3).map(tuple)


@given(st.builds(Layout, st.just("hash"), st.none() | NAMES, st.none() | RELATIONS, HOT) | st.sampled_from([ONE, ALL]))
def test_layout_round_trip(layout: Layout) -> None:
    assert LAYOUT.loads(LAYOUT.dumps(layout)) == layout


def test_layouts_as_text() -> None:
    assert [str(x) for x in (ONE, ALL, Layout("hash"), Layout("hash", "a"), Layout("hash", "a", Relation("S", 1)))] == [
        "1",
        "*",
        "~",
        "a",
        "S#2.a",
    ]
    assert str(Attribute(Relation("S"), "b")) == "S.b"


LEAVES = st.builds(Col, RELATIONS, NAMES, st.sampled_from(TYPES)) | st.builds(
    Lit, st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5), st.sampled_from(TYPES)
)
EXPRESSIONS = st.recursive(
    LEAVES, lambda inner: st.builds(Call, st.sampled_from(["+", "and", "cast"]), st.lists(inner, max_size=3).map(tuple), st.just("int"))
)


@given(EXPRESSIONS)
def test_expression_round_trip(expression: Expr) -> None:
    assert EXPRESSION.loads(EXPRESSION.dumps(expression)) == expression
    assert relations(expression) == {column.relation for column in columns(expression)}
    assert str(expression)
