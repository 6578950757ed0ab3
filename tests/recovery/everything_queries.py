"""Queries of every kind beside each other: a projection, UNION ALL in a common table, aggregates in two modes, and a reference table."""

from __future__ import annotations

COLUMNS = "id bigint, a bigint, x string, ts timestamp"
WINDOW, LATENESS = 10, 1  # seconds
KEYS_OF_TABLE = 5
JOINED = "FROM R JOIN S ON R.a = S.a"
PROJECTED = f"SELECT R.id AS r, S.id AS s, levenshtein(R.x, S.x) AS d {JOINED} WHERE md5(R.x) > '4'"
UNION = """WITH u AS (SELECT id, a, x, ts FROM R WHERE a < 6 UNION ALL SELECT id + 1000000, a, upper(x), ts FROM S WHERE a > 3)
           SELECT u.id AS u, S.id AS s, md5(u.x || S.x) AS h FROM u JOIN S ON u.a = S.a"""
TOTALS = f"SELECT S.a, count(*) AS n, sum(levenshtein(R.x, S.x)) AS d {JOINED} GROUP BY S.a"
WINDOWS = f"SELECT window(R.ts, '5 seconds').start AS at, count(*) AS n {JOINED} GROUP BY window(R.ts, '5 seconds')"
NAMED = "SELECT R.id AS r, N.version FROM R JOIN N ON R.a = N.k"
ADDED = f"SELECT R.id AS r, S.id AS s, md5(R.x || S.x) AS h {JOINED}"
