"""The parsed query of each supported form."""

from __future__ import annotations

import pytest

from clash.model.query import Query
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.sql import parse_queries, parse_query
from clash.sql.time_bands import OFFSET_RANGE

from .streams import STREAMS

SECOND = 1_000_000


def _parse(text: str, **windows: str) -> Query:
    return parse_query("q", text, STREAMS, windows or None)


def _show(query: Query) -> dict[str, object]:
    join = query.join
    return {
        "classes": sorted(" = ".join(sorted(map(str, c))) for c in join.classes),
        "filters": sorted(map(str, join.filters)),
        "residuals": sorted(map(str, join.residuals)),
        "links": sorted("-".join(sorted(map(str, pair))) for pair in query.links),
        "bounds": sorted((str(a), str(b), micros) for a, b, micros in query.bounds),
    }


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("FROM R", {}),
        ("FROM R WHERE a > 5 AND name LIKE 'x%'", {"filters": ["<(5, R.a)", "like(R.name, 'x%')"]}),
        ("FROM R WHERE a = 1 OR b IS NULL", {"filters": ["or(=(R.a, 1), isnull(R.b))"]}),
        ("FROM R JOIN S ON R.a = S.a", {"classes": ["R.a = S.a"]}),
        ("FROM R JOIN S USING (a, b)", {"classes": ["R.a = S.a", "R.b = S.b"]}),
        ("FROM R NATURAL JOIN T", {"classes": ["R.b = T.b"]}),
        ("FROM R, S JOIN T ON R.b = T.b WHERE R.a = S.a", {"classes": ["R.a = S.a", "R.b = T.b"]}),
        ("FROM R JOIN S ON R.b = S.b JOIN T ON S.b = T.b", {"classes": ["R.b = S.b = T.b"]}),
        ("FROM R JOIN S ON R.a = S.b AND S.a > 1 AND R.x < S.b",
         {"classes": ["R.a = S.b"], "filters": ["<(1, S.a)"], "residuals": ["<(R.x, S.b)"]}),
        # a double rounds a bigint, so the pair is a class of its own
        ("FROM R JOIN S ON R.a = S.a AND R.x = S.a", {"classes": ["R.a = S.a", "R.x = S.a"]}),
        ("FROM R x JOIN R y ON x.a = y.b", {"classes": ["R#2.b = R.a"]}),
        ("FROM R JOIN S ON R.a = S.a AND R.b = R.a", {"classes": ["R.a = R.b = S.a"]}),
        ("FROM R JOIN S ON R.name = S.name WHERE R.a = R.b", {"classes": ["R.name = S.name"], "filters": ["=(R.a, R.b)"]}),
        ("FROM R JOIN S ON R.a = S.a AND R.b <=> S.b", {"classes": ["R.a = S.a"], "residuals": ["<=>(R.b, S.b)"]}),
        ("FROM R JOIN S ON R.a = S.a WHERE R.b = 1 OR S.b = 2", {"classes": ["R.a = S.a"], "residuals": ["or(=(R.b, 1), =(S.b, 2))"]}),
        ("FROM R JOIN S ON R.a = S.a AND R.b + 1 = S.b", {"classes": ["R.a = S.a"], "residuals": ["=(S.b, +(R.b, 1))"]}),
        ("FROM R, S, T WHERE R.a = S.a AND S.b = T.b AND R.b + S.a > T.m",
         {"classes": ["R.a = S.a", "S.b = T.b"], "residuals": ["<(T.m, +(R.b, S.a))"]}),
        ("FROM R CROSS JOIN S", {"links": ["R-S"]}),
        ("FROM R CROSS JOIN S WHERE R.x < S.b", {"links": ["R-S"], "residuals": ["<(R.x, S.b)"]}),
        ("FROM R CROSS JOIN S WHERE R.a = S.a", {"classes": ["R.a = S.a"]}),
        ("FROM R JOIN S ON R.a = S.a CROSS JOIN T", {"classes": ["R.a = S.a"], "links": ["R-T", "S-T"]}),
        ("FROM R JOIN S ON R.a = S.a WHERE R.ts BETWEEN S.ts - INTERVAL 5 SECONDS AND S.ts + INTERVAL '1' MINUTE",
         {"classes": ["R.a = S.a"], "residuals": ["<=(R.ts, +(S.ts, 60000000))", "<=(S.ts, +(R.ts, 5000000))"],
          "bounds": [("R", "S", 60 * SECOND), ("S", "R", 5 * SECOND)]}),
        ("FROM R JOIN S ON R.a = S.a WHERE R.ts > S.ts",
         {"classes": ["R.a = S.a"], "residuals": ["<(S.ts, R.ts)"], "bounds": [("S", "R", 0)]}),
        ("FROM R JOIN S ON R.a = S.a AND R.ts = S.ts", {"classes": ["R.a = S.a", "R.ts = S.ts"], "bounds": [("R", "S", 0), ("S", "R", 0)]}),
        ("FROM R JOIN S ON R.a = S.a AND R.ts = S.ts + INTERVAL 1 SECOND",
         {"classes": ["R.a = S.a"], "residuals": ["=(R.ts, +(S.ts, 1000000))"], "bounds": [("R", "S", SECOND), ("S", "R", -SECOND)]}),
        # local time and elapsed time differ where a zone changes its clock: the bound is wider
        ("FROM R JOIN S ON R.a = S.a AND R.ts - S.ts <= INTERVAL 5 SECONDS",
         {"classes": ["R.a = S.a"], "residuals": ["<=(-(R.ts, S.ts), 5000000)"], "bounds": [("R", "S", 5 * SECOND + OFFSET_RANGE)]}),
        ("FROM R JOIN S ON R.a = S.a AND R.ts = S.ts + INTERVAL 24 HOURS",
         {"classes": ["R.a = S.a"], "residuals": ["=(R.ts, +(S.ts, 86400000000))"],
          "bounds": [("R", "S", 86_400 * SECOND + OFFSET_RANGE), ("S", "R", -86_400 * SECOND + OFFSET_RANGE)]}),
        ("FROM R JOIN S ON R.a = S.a AND R.ts + INTERVAL 20 HOURS <= S.ts - INTERVAL 20 HOURS",
         {"classes": ["R.a = S.a"], "residuals": ["<=(+(R.ts, 72000000000), +(S.ts, -72000000000))"],
          "bounds": [("R", "S", -144_000 * SECOND)]}),
        ("FROM U x JOIN U y ON x.key = y.key AND x.n - y.n <= INTERVAL 2 DAYS",
         {"classes": ["U#2.key = U.key"], "residuals": ["<=(U.n, +(U#2.n, 172800000000))"], "bounds": [("U", "U#2", 172_800 * SECOND)]}),
        # a timestamp without time zone and one with do not differ by a constant
        ("FROM R JOIN U ON R.a = U.key WHERE R.ts < U.n", {"classes": ["R.a = U.key"], "residuals": ["<(R.ts, U.n)"]}),
        ("FROM U WHERE `k c` = 1", {"filters": ["=(U.k c, 1)"]}),
        ("FROM R WHERE 1 = 1 AND TRUE AND a = 1", {"filters": ["=(R.a, 1)"]}),
    ],
)  # fmt: skip
def test_joins(rest: str, expected: dict[str, object]) -> None:
    empty: dict[str, object] = {"classes": [], "filters": [], "residuals": [], "links": [], "bounds": []}
    assert _show(_parse(f"SELECT 1 AS one {rest}")) == empty | expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT a, R.b, name AS n, x y FROM R", "a b n y"),
        ("SELECT A, `name` FROM R", "A name"),
        ("SELECT * FROM T", "b c d ok m"),
        ("SELECT t.*, 1 AS one FROM T t", "b c d ok m one"),
        ("SELECT * FROM R JOIN T USING (b)", "b a name x ts c d ok m"),
        ("SELECT * FROM R JOIN T ON R.b = T.b", "a R_b name x ts T_b c d ok m"),
        ("SELECT T.*, R.a FROM R JOIN T ON R.b = T.b", "b c d ok m a"),
        ("FROM R SELECT a", "a"),
        ("R(a,b), S(a), T(b)", "a b"),
        ("T(b, c), R(b, name), S(name)", "b c name"),
    ],
)
def test_outputs(text: str, names: str) -> None:
    assert " ".join(o.name for o in _parse(text).outputs) == names


def test_unnamed_outputs_are_named_by_their_text() -> None:
    text = "SELECT a+1, upper( name ), ts + INTERVAL 5 SECONDS, CASE WHEN a>1 THEN 2 ELSE 3 END, (a + b) * 2 FROM R"
    names = ["a+1", "upper( name )", "ts + INTERVAL 5 SECONDS", "CASE WHEN a>1 THEN 2 ELSE 3 END", "(a + b) * 2"]
    assert [o.name for o in _parse(text).outputs] == names


_LIKE_SYNTAX = [
    ",", "FROM", "from", ")", "(", "))", ";", "WHERE", "SELECT", "JOIN", "ON", "CROSS", "NATURAL", "AS", "END", "AND", "/*", "*/", "--",
    "/*+ WINDOW(R, 1) */", "[", "}",
]  # fmt: skip


@pytest.mark.parametrize("text", _LIKE_SYNTAX)
def test_text_is_never_syntax(text: str) -> None:
    query = _parse(
        f"SELECT a, '{text}', concat(name, '{text}', '{text}'), b+1, \"{text}\" AS t, "
        f"CASE WHEN name = '{text}' THEN '{text}' END, r'{text}' || name "
        f"FROM R WHERE name IN ('{text}', 'x', '{text}') AND name <> '{text}' AND '{text}' < name"
    )
    values = [(o.name, str(o.expression)) for o in query.outputs]
    quoted = repr(text)
    assert values == [
        ("a", "R.a"),
        (" ".join(f"'{text}'".split()), quoted),
        (" ".join(f"concat(name, '{text}', '{text}')".split()), f"concat(R.name, {text * 2!r})"),
        ("b+1", "+(R.b, 1)"),
        ("t", quoted),
        (" ".join(f"CASE WHEN name = '{text}' THEN '{text}' END".split()), f"case(=(R.name, {quoted}), {quoted}, NULL)"),
        (f"r'{text}' || name", f"concat({quoted}, R.name)"),
    ]
    assert len(query.join.filters) == 3


@pytest.mark.parametrize("name", _LIKE_SYNTAX)
def test_a_quoted_name_is_never_syntax(name: str) -> None:
    streams = {"R": Stream.of("R", {"a": "bigint", name: "int"}), "S": STREAMS["S"]}
    text = f"SELECT x.`{name}`, x.`{name}`+1, a AS `{name} `, S.b FROM R `x` JOIN S USING (a) WHERE x.`{name}` > 1"
    query = parse_query("q", text, streams)
    assert [o.name for o in query.outputs] == [name, f"x.`{name}`+1", f"{name} ", "b"]
    assert [str(o.expression) for o in query.outputs] == [f"R.{name}", f"+(R.{name}, 1)", "R.a", "S.b"]
    # an alias of such a name does not turn the join behind it into another one
    query = parse_query("q", f"SELECT `{name}`.a FROM R AS `{name}` JOIN S ON S.a = `{name}`.a", streams)
    assert len(query.join.classes) == 1
    assert not query.links
    assert [o.name for o in query.outputs] == ["a"]


def test_the_from_of_is_distinct_from_does_not_end_the_list() -> None:
    assert [o.name for o in _parse("SELECT a IS DISTINCT FROM b FROM R").outputs] == ["a IS DISTINCT FROM b"]
    assert [o.name for o in _parse("SELECT ALL a IS NOT DISTINCT FROM b, b+1 FROM R").outputs] == ["a IS NOT DISTINCT FROM b", "b+1"]


@pytest.mark.parametrize(
    ("expression", "shown", "kind"),
    [
        ("a", "R.a", "bigint"), ("b + 1", "+(R.b, 1)", "int"), ("a + b", "+(R.a, R.b)", "bigint"), ("a / b", "/(R.a, R.b)", "double"),
        ("a % 2", "%(R.a, 2)", "bigint"), ("x * b", "*(R.b, R.x)", "double"), ("-b", "neg(R.b)", "int"), ("-5", "-5", "int"),
        ("1.50", "'1.50'", "decimal(3,2)"), ("1e3", "1000.0", "double"), ("3000000000", "3000000000", "bigint"), ("5L", "5", "bigint"),
        ("2.5D", "2.5", "double"), ("-2147483648", "-2147483648", "int"), ("-(2147483648)", "-2147483648", "bigint"),
        ("-9223372036854775808", "-9223372036854775808", "bigint"), ("+b", "R.b", "int"), ("1.50BD", "'1.50'", "decimal(3,2)"),
        ("CAST('2017-12-11 09:30:00' AS date)", "'2017-12-11'", "date"), ("DATE '2017'", "'2017-01-01'", "date"),
        ("TIMESTAMP '2017-12-11 09:30:00 Europe/Paris'", "cast('2017-12-11 09:30:00 Europe/Paris')", "timestamp"),
        ("TIMESTAMP '2017-12-11 9:30:0 UTC+1'", "'2017-12-11T08:30:00+00:00'", "timestamp"),
        ("TIMESTAMP_NTZ '2017-12-11 09:30:00.1234567+01:00'", "'2017-12-11T09:30:00.123456'", "timestamp_ntz"),
        ("DATE '12017-01-01'", "cast('12017-01-01')", "date"), ("INTERVAL '-1 hour 30 minutes'", "-1800000000", "interval"),
        ("INTERVAL '1.5 seconds'", "1500000", "interval"),
        ("INTERVAL '.5' SECOND", "500000", "interval"), ("INTERVAL 1.5 SECONDS", "1500000", "interval"),
        ("ts - INTERVAL 1 HOUR - INTERVAL 1 HOUR", "+(R.ts, -7200000000)", "timestamp"),
        ("ts - INTERVAL 1 DAY - INTERVAL 1 DAY", "+(+(R.ts, -86400000000), -86400000000)", "timestamp"), ("'a' 'b'", "'ab'", "string"),
        ("NULL", "NULL", "void"), ("TRUE", "True", "boolean"),
        ("DATE '2024-2-3'", "'2024-02-03'", "date"),
        ("TIMESTAMP_NTZ '2024-01-01 1:02:03.5'", "'2024-01-01T01:02:03.500000'", "timestamp_ntz"),
        ("TIMESTAMP '2024-01-01 01:00:00+01:00'", "'2024-01-01T00:00:00+00:00'", "timestamp"),
        ("INTERVAL '1 hour 30 minutes'", "5400000000", "interval"), ("INTERVAL -5 SECONDS", "-5000000", "interval"),
        ("ts - INTERVAL 1 MINUTE", "+(R.ts, -60000000)", "timestamp"), ("ts - ts", "-(R.ts, R.ts)", "interval"),
        ("m + b", "+(R.b, T.m)", "decimal(13,2)"), ("m * 2", "*(T.m, 2)", "decimal(12,2)"), ("m / 3", "/(T.m, 3)", "decimal(14,6)"),
        ("m % 3", "%(T.m, 3)", "decimal(3,2)"), ("m + x", "+(R.x, T.m)", "double"), ("round(m, 1)", "round(T.m, 1)", "decimal(10,1)"),
        ("floor(x)", "floor(R.x)", "bigint"), ("ceil(m)", "ceil(T.m)", "decimal(9,0)"), ("abs(b)", "abs(R.b)", "int"),
        ("CAST(a AS string)", "cast(R.a)", "string"), ("CAST(a AS bigint)", "R.a", "bigint"),
        ("CAST(a AS decimal(12))", "cast(R.a)", "decimal(12,0)"),
        ("CAST('5' AS int)", "cast('5')", "int"), ("CAST(NULL AS date)", "NULL", "date"), ("int(x)", "cast(R.x)", "int"),
        ("CASE WHEN ok THEN b END", "case(T.ok, R.b, NULL)", "int"), ("IF(ok, a, b)", "case(T.ok, R.a, R.b)", "bigint"),
        ("NULLIF(b, 1)", "case(=(R.b, 1), NULL, R.b)", "int"), ("COALESCE(b, a, 1.5)", "coalesce(R.b, R.a, '1.5')", "decimal(21,1)"),
        ("GREATEST(b, x)", "greatest(R.b, R.x)", "double"), ("LENGTH(name)", "length(R.name)", "int"),
        ("name || '!'", "concat(R.name, '!')", "string"), ("SUBSTRING(name, 2, 3)", "substring(R.name, 2, 3)", "string"),
        ("YEAR(d) + MONTH(d)", "+(month(T.d), year(T.d))", "int"), ("HOUR(ts)", "hour(R.ts)", "int"), ("DAY(ts)", "day(R.ts)", "int"),
        ("TRIM(LOWER(name))", "trim(lower(R.name))", "string"), ("ok IS TRUE", "<=>(T.ok, True)", "boolean"),
        ("name LIKE 'a!%' ESCAPE '!'", "like(R.name, 'a!%', '!')", "boolean"), ("name NOT LIKE 'a'", "not(like(R.name, 'a'))", "boolean"),
        ("items", "S.items", "array<int>"), ("items IS NULL", "isnull(S.items)", "boolean"),
    ],
)  # fmt: skip
def test_expressions(expression: str, shown: str, kind: str) -> None:
    scope = "S" if "items" in expression else "R JOIN T ON R.b = T.key"
    streams = {**STREAMS, "T": Stream.of("T", {"key": "int", **{c: k for c, k in STREAMS["T"].columns if c != "b"}})}
    (output,) = parse_query("q", f"SELECT {expression} AS e FROM {scope}", streams).outputs
    assert (str(output.expression), output.expression.type) == (shown, kind)


def test_windows() -> None:
    r, s = Relation("R"), Relation("S")
    join = "FROM R JOIN S ON R.a = S.a"
    assert _parse(f"SELECT 1 AS x {join}").join.windows == {(r, 5 * SECOND), (s, 10 * SECOND)}
    assert _parse(f"SELECT 1 AS x {join}", R="1 minute").join.windows == {(r, 60 * SECOND), (s, 10 * SECOND)}
    assert _parse(f"SELECT /*+ WINDOW(R, '1 minute', s, 'unbounded') */ 1 AS x {join}").join.windows == {(r, 60 * SECOND), (s, None)}
    assert _parse(f"SELECT /*+ WINDOW(R, '1 s') */ /*+ WINDOW(`S`, \"2 s\") */ 1 AS x {join}").join.windows == {
        (r, SECOND),
        (s, 2 * SECOND),
    }
    assert _parse(f"SELECT /*+ WINDOW(R, '1 s') WINDOW(S, '2 s') */ 1 AS x {join}", R="1 second").join.windows == {
        (r, SECOND),
        (s, 2 * SECOND),
    }
    twice = _parse("SELECT /*+ WINDOW(R, '1 s') */ x.a FROM R x, R y WHERE x.a = y.a")
    assert twice.join.windows == {(r, SECOND), (Relation("R", 1), SECOND)}
    once = _parse("SELECT /*+ WINDOW(y, '1 s') */ x.a FROM R x, R y WHERE x.a = y.a")
    assert once.join.windows == {(r, 5 * SECOND), (Relation("R", 1), SECOND)}
    assert _parse("/*+ WINDOW(R, '1 s') */ R(a), S(a)").join.windows == {(r, SECOND), (s, 10 * SECOND)}
    assert _parse(f"SELECT 1 AS x {join} -- /*+ WINDOW(R, '1 s') */\nWHERE R.name = '/*+ WINDOW(R, 1) */'").join.windows == {
        (r, 5 * SECOND),
        (s, 10 * SECOND),
    }


def test_self_joins_are_numbered_in_the_order_of_the_text() -> None:
    query = _parse("SELECT y.a FROM R x, S, R y WHERE x.a = S.a AND y.b = S.b")
    assert query.aliases == (("x", Relation("R")), ("S", Relation("S")), ("y", Relation("R", 1)))
    short = _parse("R(a), R(a, b), R(b)")
    assert short.aliases == (("R", Relation("R")), ("R_2", Relation("R", 1)), ("R_3", Relation("R", 2)))


def test_schemas_from_the_queries() -> None:
    queries, streams = parse_queries(
        {
            "q1": "R(a), S(a,b), T(b)",
            "q2": "SELECT c, d FROM T JOIN s ON T.B = s.b WHERE T.c > 5 AND s.d = 'x'",
            "q3": "SELECT * FROM S NATURAL JOIN T",
            "q4": "SELECT e FROM V WHERE f = 1",
            "q5": "SELECT V.e FROM V JOIN W USING (g)",
        }
    )
    assert {n: tuple(c for c, _ in s.columns) for n, s in streams.items()} == {
        "R": ("a",), "S": ("a", "b", "d"), "T": ("b", "c"), "V": ("e", "f", "g"), "W": ("g",)}  # fmt: skip
    assert all(kind == "unknown" for s in streams.values() for _, kind in s.columns)
    assert [[o.name for o in q.outputs] for q in queries] == [["a", "b"], ["c", "d"], ["b", "a", "d", "c"], ["e"], ["e"]]
    assert all(window is None for q in queries for _, window in q.join.windows)


def test_only_declared_streams_that_are_used_are_returned() -> None:
    queries, streams = parse_queries({"q": "SELECT r.a FROM r JOIN S USING (a)"}, STREAMS, {"q": {"S": "1 s"}})
    assert streams == {"R": STREAMS["R"], "S": STREAMS["S"]}
    assert (Relation("S"), SECOND) in queries[0].join.windows
