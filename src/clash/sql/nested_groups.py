"""A query whose groups are inside of it: SELECTs over the result of one SELECT with aggregates, GROUP BY, HAVING or DISTINCT.

The inner SELECT alone reads streams. It becomes the outer query over the join core; everything around it is SQL over its groups, which are
all there in the mode complete. The text around it stays as it is, except that the inner SELECT is replaced by the name of the groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from clash.model.outer_query import GROUPS
from clash.sql.query_source import QuerySource
from clash.sql.spark_parser import TEXT_RANGE
from clash.sql.tables import CommonTable, CommonTables, common_tables, is_union_all, own_nodes, parts_of_from, union_branches

ALL_GROUPS = f"SELECT * FROM {GROUPS}"
OUTER_CLAUSES = ("distinct", "group", "having")


@dataclass(frozen=True, slots=True)
class NestedGroups:
    select: exp.Select
    """The SELECT that gives the groups, with the common tables that it reads."""
    final: str
    """The query over them."""


def has_groups(select: exp.Select) -> bool:
    return any(select.args.get(key) for key in OUTER_CLAUSES) or any(item.find(exp.AggFunc) for item in select.expressions)


def find_nested_groups(source: QuerySource, root: exp.Select) -> NestedGroups | None:
    """None for a query that has no groups inside, or more than SELECTs over one set of groups."""
    selects = list(_selects(source, root, {}))
    joined = [part for part in selects if has_groups(part.select) and _closure(part, selects) is not None]
    if len(joined) != 1 or joined[0].select is root or joined[0].select.args.get("with_") is not None:
        return None
    groups = joined[0]
    inside = _closure(groups, selects) or set()
    for part in selects:
        if part is groups or id(part.select) in inside:
            continue
        for table in _tables(part):
            if table is None or (table.query is not groups.select and _ids(table.query) & inside):
                return None  # it reads a stream, or what the groups are made of
    return NestedGroups(_with_common(groups, inside), _final(source, root, groups.select, inside))


@dataclass(frozen=True, slots=True)
class _Part:
    """A SELECT of the query, and the common tables that it may use."""

    select: exp.Select
    known: CommonTables


def _selects(source: QuerySource, query: exp.Expr, outer: CommonTables) -> Iterator[_Part]:
    """All SELECTs, those of subqueries in expressions included."""
    if isinstance(query, exp.Subquery):
        yield from _selects(source, query.this, outer)
        return
    if not isinstance(query, exp.Query):
        return
    known = common_tables(source, query, outer)
    for table in known.values():
        if table.within is query:
            yield from _selects(source, table.query, table.known)
    if isinstance(query, exp.SetOperation):
        yield from _selects(source, query.left, known)
        yield from _selects(source, query.right, known)
    elif isinstance(query, exp.Select):
        yield _Part(query, known)
        for node in _inner(query):
            yield from _selects(source, node, known)


def _inner(select: exp.Select) -> list[exp.Query]:
    """The queries directly inside of a SELECT: derived tables and subqueries, without common tables."""
    found: list[exp.Query] = []
    pending: list[exp.Expr] = [value for key, value in _children(select) if key != "with_"]
    while pending:
        node = pending.pop()
        if isinstance(node, exp.Select | exp.SetOperation):
            found.append(node)
        else:
            pending += [value for _, value in _children(node)]
    return found


def _children(node: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    for key, value in node.args.items():
        yield from ((key, child) for child in (value if isinstance(value, list) else [value]) if isinstance(child, exp.Expr))


def _tables(part: _Part) -> Iterator[CommonTable | None]:
    """The common tables in a FROM clause; None for a stream. Derived tables are SELECTs of their own."""
    for node in parts_of_from(part.select):
        if isinstance(node, exp.Table):
            yield part.known.get(node.name.lower())


def _ids(query: exp.Expr) -> set[int]:
    """The SELECTs that a derived or common table consists of."""
    if isinstance(query, exp.Union):
        return {id(branch) for branch in union_branches(query)}
    return {id(query)}


def _closure(part: _Part, selects: list[_Part]) -> set[int] | None:
    """The SELECTs that FROM reads, if all of them are parts of one join that reads streams; otherwise None."""
    by_id = {id(other.select): other for other in selects}
    inside: set[int] = set()
    reads_stream = False
    pending = [part]
    while pending:
        current = pending.pop()
        inside.add(id(current.select))
        derived = [node.this for node in parts_of_from(current.select) if isinstance(node, exp.Subquery)]
        for node in own_nodes(current.select):
            if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None):
                return None
        if len(_inner(current.select)) != len(derived):
            return None  # subqueries in expressions
        for table in _tables(current):
            reads_stream |= table is None
            derived += [] if table is None else [table.query]
        for query in derived:
            for number in _ids(query):
                other = by_id.get(number)
                if other is None or has_groups(other.select) or (isinstance(query, exp.SetOperation) and not is_union_all(query)):
                    return None
                pending.append(other)
    return inside if reads_stream else None


def _with_common(groups: _Part, inside: set[int]) -> exp.Select:
    """The SELECT of the groups with the common tables that it needs."""
    needed = [table.node.copy() for table in groups.known.values() if _ids(table.query) <= inside]
    select = groups.select.copy()
    select.set("with_", exp.With(expressions=needed) if needed else None)
    return select


def _final(source: QuerySource, root: exp.Select, groups: exp.Select, inside: set[int]) -> str:
    """The text of the query in which the groups are a table, without the common tables that they are made of."""
    clause = root.args.get("with_")
    kept = []
    for node in clause.expressions if clause is not None else []:
        if not (_ids(node.this) <= inside and node.this is not groups):
            start = node.args["alias"].this.meta["start"]
            end = source.tokens[source.index_at(node.this.meta[TEXT_RANGE][1])].end + 1
            kept.append(_replaced(source, (start, end), groups))
    body = _replaced(source, source.span(root), groups)
    return f"WITH {', '.join(kept)} {body}" if kept else body


def _replaced(source: QuerySource, span: tuple[int, int], groups: exp.Select) -> str:
    start, end = groups.meta[TEXT_RANGE]
    if not span[0] <= start < end <= span[1]:
        return source.text[slice(*span)]
    return f"{source.text[span[0] : start]}{ALL_GROUPS}{source.text[end : span[1]]}"
