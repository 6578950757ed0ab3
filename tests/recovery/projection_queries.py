"""Queries with expressions that Spark computes of joined rows, where a stream is read, and behind the join; and computed keys."""

from __future__ import annotations

JOINED = "FROM R JOIN S ON R.a = S.a"
QUERIES = {
    "across": f"SELECT R.x, S.x AS y, levenshtein(R.x, S.x) AS d {JOINED}",
    "computed": f"SELECT R.x, S.x AS y {JOINED} WHERE md5(R.x) > 'a' AND levenshtein(R.x, S.x) > 1",
    "keys": "SELECT R.x, S.b FROM R JOIN S ON R.b % 3 = S.b % 7 WHERE levenshtein(R.x, S.x) > 2",
    "total": f"SELECT S.b, count(*) AS n, max(levenshtein(R.x, S.x)) AS d {JOINED} WHERE levenshtein(R.x, S.x) > 1 GROUP BY S.b",
}
ADDED = f"SELECT md5(R.x || S.x) AS h, S.b {JOINED}"
