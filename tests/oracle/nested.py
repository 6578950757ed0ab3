"""Nested loops over the parsed queries: the slowest engine there is. The oracle is checked against it, and it shows the interface."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

from clash.model.query import Query
from clash.model.relation import Relation

from ..sql.evaluate import value
from .case import Case, Row, plain, tau
from .oracle import Expected

_Admitted = list[tuple[int, int, dict[str, Any]]]


class _Number(float):
    """Spark's order: NaN is itself, and above everything."""

    def _key(self) -> tuple[bool, float]:
        return (True, 0.0) if math.isnan(self) else (False, float(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | float) and self._key() == _Number(other)._key()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._key()[1])

    def __lt__(self, other: Any) -> bool:
        return self._key() < _Number(other)._key()

    def __le__(self, other: Any) -> bool:
        return self._key() <= _Number(other)._key()

    def __gt__(self, other: Any) -> bool:
        return self._key() > _Number(other)._key()

    def __ge__(self, other: Any) -> bool:
        return self._key() >= _Number(other)._key()


def run_nested(case: Case) -> Expected:
    """Only for streams that are never idle."""
    used = case.kept | {relation.stream for query in case.parsed for relation in query.join.relations}
    streams = [stream for stream in case.streams if stream.name in used]
    found = Expected(late={stream.name: Counter() for stream in case.streams})
    admitted: dict[str, _Admitted] = {stream.name: [] for stream in case.streams}
    for number, batch in enumerate(case.batches):
        marks = {}
        for stream in streams:
            before = [t for t, _, _ in admitted[stream.name]]
            marks[stream.name] = max(before) - stream.lateness if before and stream.lateness is not None else None
        found.watermarks.append(marks)
        for stream in streams:
            mark = marks[stream.name]
            for row in batch.rows.get(stream.name, ()):
                time = tau(stream, row, batch.now)
                if time is None or (mark is not None and time < mark):
                    found.late[stream.name][plain(row)] += 1
                    continue
                values = {c: _Number(v) if isinstance(v, float) else v for (c, _), v in zip(stream.columns, row, strict=True)}
                admitted[stream.name].append((time, number, values))
    for query in case.parsed:
        found.results[query.name] = _join(query, admitted, case.setting.timezone)
    return found


def _join(query: Query, admitted: dict[str, _Admitted], zone: str) -> Counter[tuple[int, Row]]:
    results: Counter[tuple[int, Row]] = Counter()
    windows = dict(query.join.windows)
    relations = [relation for _, relation in query.aliases]
    for parts in itertools.product(*(admitted[relation.stream] for relation in relations)):
        latest = max(t for t, _, _ in parts)
        spans = ((latest - t, windows[relation]) for (t, _, _), relation in zip(parts, relations, strict=True))
        if any(window is not None and span > window for span, window in spans):
            continue
        row = {relation: values for relation, (_, _, values) in zip(relations, parts, strict=True)}
        if _equal(query, row) and all(value(p, row, zone) is True for p in (*query.join.filters, *query.join.residuals)):
            outputs = [value(output.expression, row, zone) for output in query.outputs]
            results[max(b for _, b, _ in parts), tuple(plain(float(v) if isinstance(v, _Number) else v) for v in outputs)] += 1
    return results


def _equal(query: Query, row: dict[Relation, dict[str, Any]]) -> bool:
    for group in query.join.classes:
        values = [row[a.relation][a.column] for a in group]
        if any(v is None for v in values) or any(v != values[0] for v in values):
            return False
    return True
