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
    "CAST('70000000000000000000000000000000000000' AS decimal(38,0)) % CAST('0.03' AS decimal(10,2))",
    "CAST('70000000000000000000000000000000000000' AS decimal(38,0)) % CAST('0.3' AS decimal(10,1)) * n",
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
    "E.st.a", "st.a + i", "upper(E.st.b)", "st.c.d * 2", "year(E.st.c.e)", "E.st.a IS NULL", "st.c.E > ts", "coalesce(st.b, s)", "(st).c.d",
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

_DATE_COLUMNS = ("day", "ts", "nt")
CALENDAR = [
    f"{part}({a})" for part, a in itertools.product(
        ("quarter", "dayofweek", "weekday", "dayofyear", "weekofyear", "dayname", "monthname", "last_day", "to_date", "to_timestamp",
         "unix_timestamp"), _DATE_COLUMNS)
] + [
    f"extract({field} FROM {a})" for field, a in itertools.product(
        ("YEAR", "YEAROFWEEK", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOW_ISO", "DOY", "HOUR", "MINUTE", "SECOND"), _DATE_COLUMNS)
] + [
    f"date_trunc('{unit}', {a})" for unit, a in itertools.product(
        ("year", "QUARTER", "mon", "WEEK", "DD", "hour", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"), _DATE_COLUMNS)
] + [f"trunc({a}, '{unit}')" for unit, a in itertools.product(("YYYY", "quarter", "MM", "week"), _DATE_COLUMNS)] + [
    f"{a} {sign} {interval}" for a, sign, interval in itertools.product(
        _DATE_COLUMNS, "+-", ("INTERVAL 1 MONTH", "INTERVAL -13 MONTHS", "INTERVAL '2' YEAR", "INTERVAL 1 YEAR 2 MONTHS", "INTERVAL 1 DAY",
                              "INTERVAL 2 WEEKS", "INTERVAL 25 HOURS", "INTERVAL '1 day 2 hours'", "INTERVAL '3 days'"))
] + [
    "day + 1", "1 + day", "day - 1", "day + i % 100000", "day - t", "t + day", "day + INTERVAL 1 YEAR + INTERVAL 2 MONTHS",
    "INTERVAL 1 MONTH + ts", "(INTERVAL 1 YEAR + INTERVAL 2 MONTHS) + day", "day - (INTERVAL 1 YEAR - INTERVAL 2 MONTHS)",
    "INTERVAL 5 DAYS + day", "day + (ts - tz)", "date_add(day, 7)", "date_add(ts, -7)", "date_sub(nt, t)", "date_add(day, h)",
    "dateadd(day, 1)", "add_months(day, 1)", "add_months(ts, -25)", "add_months(day, h)", "add_months(nt, t)", "datediff(day, ts)",
    "datediff(ts, tz)", "date_diff(nt, day)", "next_day(day, 'Mon')", "next_day(ts, 'SU')", "next_day(day, 'thursday')",
    "make_date(h, t, j)", "make_date(2024, 2, t)", "make_date(year(day), month(day), day(day))", "to_date('2024-02-29')", "to_date(s)",
    "to_timestamp(s)", "unix_date(day)", "date_from_unix_date(h)", "unix_seconds(ts)", "unix_millis(ts)", "unix_micros(ts)",
    "timestamp_seconds(i)", "timestamp_seconds(l)", "timestamp_millis(l)", "timestamp_micros(l)", "timestamp_millis(h)",
    "date_part('doy', day)", "date_part('seconds', ts)", "year(day + INTERVAL 1 MONTH)", "day > DATE '2024-01-31' + INTERVAL 1 MONTH",
    "datepart('week', day)", "datepart('hour', ts)", "to_unix_timestamp(ts)", "date_add(NULL, 1)", "date_add(day, NULL)",
    "date_trunc('DAY', ts) = ts",
]  # fmt: skip

_MADE = ("make_date", "date_sub", "date_add", "timestamp_seconds", "timestamp_millis", "timestamp_micros", "date_from_unix_date", "s)")
CALENDAR_IN_ZONES = [
    text for text in CALENDAR
    if any(name in text for name in _MADE)
    or "(ts" in text or " ts" in text or text.startswith("ts ") or ("day" in text and ("date_trunc" in text or "HOURS" in text))
]  # fmt: skip

NUMBERS = [f"{a} div {b}" for a, b in (("i", "j"), ("t", "h"), ("l", "m"), ("i", "7"), ("l", "t"), ("-7", "j"))]
NUMBERS += [
    f"pmod({a}, {b})"
    for a, b in (("t", "t"), ("h", "i"), ("i", "j"), ("l", "m"), ("f", "f"), ("x", "y"), ("i", "x"), ("i", "7"), ("t", "-7Y"))
]
NUMBERS += [f"{name}({a})" for name, a in itertools.product(("sqrt", "sign", "rint", "exp", "ln", "log2", "log10"), "tilfxce")]
NUMBERS += [f"{name}({a}, {b})" for name, a, b in itertools.product(("power", "log"), ("x", "i", "c", "2"), ("y", "j", "0.5", "f"))]
NUMBERS += [f"{a} {op} {b}" for (a, b), op in itertools.product((("t", "h"), ("i", "j"), ("l", "i"), ("l", "m"), ("i", "255")), "&|^")]
NUMBERS += [
    "~t", "~h", "~i", "~l", "isnan(x)", "isnan(f)", "isnan(NULL)", "nanvl(x, y)", "nanvl(f, f)", "nanvl(f, x)", "nanvl(x, 0.0D)",
    "mod(i, j)",
    "mod(c, d)", "mod(x, 3)", "signum(x)", "negative(i)", "zeroifnull(i)", "zeroifnull(x)", "nullifzero(i)", "nullifzero(c)",
    "nvl2(i, j, l)",
    "nvl2(s, 1, 0)", "ifnull(i, j)", "equal_null(i, j)", "equal_null(x, y)", "isnull(s)", "isnotnull(s)", "nvl2(b, NULL, i)", "i div j + 1",
    "pmod(i, 5) = 3", "log(x)", "pow(x, 3)", "power(x, NULL)", "ln(NULL)", "sqrt(abs(x))", "pmod(i, NULL)", "sqrt(NULL)",
]  # fmt: skip

STRINGS = [
    "ltrim(s)", "rtrim(s)", "btrim(s)", "trim(BOTH 'a ' FROM s)", "trim(LEADING 'ä1' FROM s)", "trim(TRAILING 'ß%c' FROM s)",
    "trim('xa', s)",
    "ltrim('xa', s)", "rtrim('', s)", "btrim(s, 'a')", "trim(FROM s)",
    *(f"{name}(s, '{pattern}')" for name, pattern in itertools.product(("startswith", "endswith", "contains", "instr"), ("a", "", "ß",
    "本", "-0", "zz"))),
    "replace(s, 'a', 'xy')", "replace(s, 'a')", "replace(s, '', 'x')", "replace(s, '2', '本')", "replace(s, '-', '')",
    "concat_ws('-', s, u)",
    "concat_ws(',', s, NULL, u, 'x')", "concat_ws(s, u, 'a')", "concat_ws('', s, s)", "concat_ws(NULL, s, u)", "repeat(s, 3)",
    "repeat(s, 0)",
    "repeat(s, -1)", "reverse(s)", "octet_length(s)", "octet_length(w)", "char_length(s)", "character_length(s)", "len(s)", "ucase(s)",
    "lcase(s)",
    "lpad(s, 5, 'xy')", "rpad(s, 5, 'xy')", "lpad(s, 3)", "rpad(s, 4)", "lpad(s, 0, 'x')", "lpad(s, -1, 'x')", "rpad(s, 6, '')",
    "lpad(s, 7, '本b')",
    "locate('2', s)", "position('b' IN s)", "split_part(s, '-', 1)", "split_part(s, '-', 2)", "split_part(s, '-', -1)",
    "split_part(s, '-', -3)",
    "split_part(s, '-', 9)", "split_part(s, '', 1)", "split_part(s, '', 2)", "split_part(s, ' ', 2)", "split_part(s, '本', 2)",
    "left(s, 2)",
    "left(s, 0)", "left(s, -1)", "left(s, j)", "right(s, 2)", "right(s, 0)", "right(s, -1)", "right(s, i % 5)", "substr(s, 2, 2)",
    "s ILIKE 'A%'",
    "s NOT ILIKE '%C'", "s ILIKE 'äö%'", "s ILIKE '_!%C' ESCAPE '!'", "upper(s) ILIKE '%b%'", "replace(lower(s), 'ä', 'ae')",
    "startswith(s, 'a') AND NOT endswith(s, 'c')",
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

ALL = {"comparisons": COMPARISONS, "logic": LOGIC, "arithmetic": ARITHMETIC, "text": TEXT, "syntax": SYNTAX, "times": TIMES, "casts": CASTS,
       "calendar": CALENDAR, "numbers": NUMBERS, "strings": STRINGS}  # fmt: skip
