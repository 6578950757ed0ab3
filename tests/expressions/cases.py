"""Expressions over the table of edge values, by family; each is compared with Spark's own result in every row."""

from __future__ import annotations

import itertools

_PAIRS = [
    ("t", "t"), ("t", "h"), ("h", "i"), ("i", "j"), ("i", "l"), ("l", "m"), ("f", "f"), ("f", "i"), ("f", "x"), ("x", "y"), ("l",
    "x"),
    ("c", "d"), ("c", "e"), ("e", "g"), ("c", "i"), ("k", "l"), ("c", "x"), ("n", "c"), ("n", "k"), ("c", "3"), ("2", "c"), ("x",
    "0.5"),
    ("i", "2.50"), ("l", "1e0"), ("g", "g"), ("e", "e"), ("k", "k"),
]  # fmt: skip
_OTHER_PAIRS = [
    ("s", "u"), ("s", "'ab'"), ("b", "p"), ("w", "w"), ("day", "day"), ("day", "ts"), ("ts", "tz"), ("day", "nt"), ("ts", "nt"),
    ("nt", "nt"),
    ("ts", "TIMESTAMP '2024-03-31 02:30:00'"), ("day", "DATE '2024-03-31'"), ("ts - tz", "INTERVAL 1 DAY"), ("b", "true"),
    ("nt", "TIMESTAMP_NTZ '2024-02-29 12:00:00.5'"), ("x", "CAST('NaN' AS double)"), ("CAST('NaN' AS double)", "x"), ("0.0D", "x"),
    ("x", "NULL"), ("i", "NULL"),
]  # fmt: skip

COMPARISONS = [f"{a} {op} {b}" for (a, b), op in itertools.product(_PAIRS + _OTHER_PAIRS, ("=", "<>", "<", "<=", "<=>"))]
COMPARISONS += [f"{a} {op} {b}" for (a, b), op in itertools.product(_PAIRS[:10:3], (">", ">="))]
COMPARISONS += [
    "i IN (1, 2, 99)", "l IN (1, -7, 9223372036854775807)", "x IN (0.0D, 1.5D, CAST('NaN' AS double))", "s IN ('a', 'abc', '')",
    "c IN (0.50, 33.33, 1)", "day IN (DATE '2024-02-29')", "i NOT IN (1, 2)", "i IN (1, NULL)", "i NOT IN (1, NULL)", "i IN (j, 1)",
    "x IN (1, 7)", "b IN (true)", "ts IN (TIMESTAMP '1970-01-01 00:00:00', TIMESTAMP '2024-02-29 12:00:00.5')", "f IN (0.0F, 1.5F)",
    "x BETWEEN 0 AND y", "i BETWEEN -5 AND 20", "e IN (1, 2.5)", "l IN (1, 2.5, 3e0)", "l IN (9007199254740993, 1e0)", "day IN (ts, nt)",
    "day IN (ts, '2024-02-29 12:00:00.5')", "x IN (c, i)", "i IN (c, 1)", "w IN (CAST('a' AS binary), CAST('ab' AS binary))",
    "greatest(i, j)", "least(i, j, 5)", "greatest(x, y, 0.0D)", "least(x, y)", "greatest(s, u)", "least(c, e)", "greatest(day, ts)",
    "greatest(i, NULL)", "greatest(b, p)", "least(f, x)", "greatest(c, i)",
]  # fmt: skip

LOGIC = [
    "b AND p", "b OR p", "NOT b", "b IS NULL", "b IS NOT NULL", "b AND NULL", "b OR NULL", "b IS TRUE", "b IS NOT FALSE",
    "i < 5 AND j > 3 OR b", "NOT (i < 5 AND (j > 3 OR b))", "coalesce(i, j, 0)", "coalesce(i, l, c)", "coalesce(NULL, s, 'none')",
    "coalesce(day, ts)", "CASE WHEN j <> 0 THEN i / j END", "CASE WHEN j <> 0 THEN i % j WHEN i = 0 THEN 0 ELSE -1 END",
    "CASE WHEN b THEN i WHEN p THEN c ELSE x END", "CASE i WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE s END", "IF(b, i, NULL)",
    "NULLIF(i, j)",
    "NVL(x, 0.0D)", "CASE WHEN b THEN day ELSE ts END", "CASE WHEN b THEN NULL ELSE i END",
    "coalesce(i, 1 / j)", "CASE WHEN j = 0 THEN 0 WHEN 10 / j > 1 THEN 1 ELSE 2 END", "CASE WHEN b THEN 1.5 ELSE i END",
]  # fmt: skip

ARITHMETIC = [f"{a} {op} {b}" for (a, b), op in itertools.product(_PAIRS, "+-*/%")]
ARITHMETIC += [f"{op}({a})" for a, op in itertools.product("thilfxckn", ("-", "abs"))]  # Spark itself rounds -x of 38 digits to 34
ARITHMETIC += [f"{op}({a})" for a, op in itertools.product("thilfxcegkn", ("floor", "ceil", "round"))]
ARITHMETIC += [f"round({a}, {places})" for a, places in itertools.product("tilfxcegkn", (0, 1, 2, 3, 10, -1, -2, -5))]
ARITHMETIC += [
    "round(x, 25)", "round(x, -25)", "round(l, -18)", "round(l, -19)", "round(l, -20)", "round(e, -30)", "round(c, -38)",
    "i + NULL",
    "1 / 3", "2 + i * 3 - j", "c * (1 - d)", "c * (1 - n) * (1 + n)", "(c - d) / 100", "c % 7", "x % 2", "-x % 3.5D", "i + 1.5",
    "l * 1.5D",
    "abs(i - j)", "round(c / d, 2)", "round(x / 3, 4)", "e / g", "e / 3", "g * g * g",
]  # fmt: skip

TEXT = [
    "lower(s)", "upper(s)", "length(s)", "length(w)", "trim(s)", "concat(s, u)", "concat(s, '-', u, '!')", "concat(s, NULL)",
    "s || u",
    "substring(s, 2)", "substring(s, 2, 3)", "substring(s, 0, 2)", "substring(s, -3)", "substring(s, -3, 2)", "substring(s, -5, 3)",
    "substring(s, 1, 0)", "substring(s, 2, -1)", "substring(s, 100, 2)", "substring(s, i)", "substring(s, j, 2)",
    "substring(s, i, j)",
    "substring('abcdef', i, j)", "substring(s, t, h)", "substring(s, 2, j)", "substring(s, l)",
    "substring(s, -2147483648, 2147483647)",
    "substring(s, NULL)", "substring(s, 2, i)",
    "s LIKE 'a%'", "s LIKE '%c'", "s LIKE '%b%'", "s LIKE 'abc'", "s LIKE '_'", "s LIKE 'a_c'", "s LIKE 'a\\\\_c'",
    "s LIKE 'a\\\\%c'",
    "s LIKE ''", "s LIKE '%'", "s LIKE '%%'", "s LIKE 'a%c'", "s LIKE '%1%2%'", "s LIKE 'x_y'", "s LIKE '_本_'",
    "s LIKE 'a!%c' ESCAPE '!'",
    "s LIKE 'a/_%' ESCAPE '/'", "s LIKE '%.%'", "s LIKE '+_'", "s NOT LIKE '%a%'", "s LIKE '_%'", "s LIKE 'a%%c'", "s LIKE '__'",
    "s LIKE '%\\\\\\\\%'", "s LIKE '(a|b)%'", "s LIKE '[%'", "upper(s) LIKE 'A%'",
]  # fmt: skip

# text that looks like syntax, quotes and escapes, numbers with suffixes and signs
SYNTAX = [
    "concat(s, ',', u)", "concat(',', s, 'FROM', u, ')')", "s IN (',', 'FROM', ')', 'a')", "CASE WHEN s = ')' THEN ',' ELSE ';' END",
    "s || ',' || u", "coalesce(s, ',', ')')", "concat('SELECT', '/*', s, '*/', '--')", "s = ' AND '", "s LIKE '%,%'",
    "substring(',FROM,', 2, 4)",
    "'it''s'", "\"a\"", "'a' 'b'", "'a\\\\b'", "'\\u0041\\101\\n\\%\\_\\q'", "r'a\\nb'", "greatest(',', s)", "nullif(s, ',')",
    "IF(b, ',', 'FROM')",
    "5L", "5Y", "5S", "1.5D", "1.5F", "1.5BD", "1e3", "1e3BD", ".5", "5.", "-2147483648", "-9223372036854775808", "- 2147483648",
    "-(2147483648)", "-(-2147483648)", "-(-128Y)",
    "i + -2147483648", "+i", "+ x", "i - -j", "- - i", "+c", "(i = j) = b", "(b < p) IS NULL", "b = p IS NULL", "NOT i = j",
    "NOT b IS NULL",
    "i IS DISTINCT FROM j", "i IS NOT DISTINCT FROM j", "CAST(s AS varchar(3))", "i::string", "x::int::string", "CAST(i AS dec(12,2))",
    "CAST(i AS numeric)", "int(x)", "string(i)", "date(ts)", "timestamp(day)", "!b", "i == j", "i != j",
]  # fmt: skip

TIMES = [f"{part}({a})" for part, a in itertools.product(("year", "month", "day"), ("day", "ts", "nt"))]
TIMES += [f"{part}({a})" for part, a in itertools.product(("hour", "minute", "second"), ("ts", "nt"))]
TIMES += [
    "ts - tz", "ts + INTERVAL 90 MINUTES", "ts - INTERVAL '1 hour 30 minutes'", "nt + INTERVAL 5 SECONDS", "nt - nt",
    "ts - tz > INTERVAL 1 HOUR",
    "ts - tz + INTERVAL 1 HOUR", "-(ts - tz)", "ts BETWEEN tz - INTERVAL 5 MINUTES AND tz", "CAST(ts AS date)", "CAST(nt AS date)",
    "CAST(day AS timestamp)", "CAST(nt AS timestamp)", "CAST(ts AS timestamp_ntz)", "CAST(day AS timestamp_ntz)",
    "CAST(ts AS string)",
    "CAST(nt AS string)", "CAST(day AS string)", "CAST(s AS timestamp)", "CAST(s AS timestamp_ntz)", "CAST(s AS date)",
    "day < ts", "ts = nt",
    "day = nt", "TIMESTAMP '2024-03-31 02:30:00' < ts", "TIMESTAMP '2024-02-29 12:00:00+01:00' < ts", "CAST(ts AS bigint)",
    "CAST(ts AS double)",
    "CAST(ts AS int)", "CAST(ts AS decimal(20,6))", "CAST(ts AS float)", "CAST(i AS timestamp)",
    "CAST(CAST('2024-10-27 02:30:00' AS timestamp) AS bigint)",
]  # fmt: skip

_TARGETS = ["tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(38,10)", "decimal(5,0)", "decimal(20,18)"]
CASTS = [f"CAST({a} AS {kind})" for a, kind in itertools.product("thilfxcegknsb", [*_TARGETS, "string"])]
CASTS += [f"CAST({a} AS boolean)" for a in "tilfxceks"] + [f"CAST({a} AS timestamp)" for a in "tilfxc"]
CASTS += [
    "CAST(s AS binary)",
    "CAST(w AS string)",
    "CAST(NULL AS int)",
    "CAST('12' AS bigint)",
    "CAST(c AS decimal(4,1))",
    "CAST(e AS decimal(38,2))",
]

ALL = {"comparisons": COMPARISONS, "logic": LOGIC, "arithmetic": ARITHMETIC, "text": TEXT, "syntax": SYNTAX, "times": TIMES, "casts": CASTS}
