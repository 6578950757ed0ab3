"""The tables of a FROM clause as they are written, and the common tables of WITH that their names may refer to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from clash.sql.query_source import QuerySource
from clash.sql.spark_parser import TEXT_RANGE


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A table of a WITH clause."""

    node: exp.CTE
    query: exp.Select | exp.Union
    columns: list[str]
    """The names of a list such as `t(a, b)`; empty without one."""
    known: CommonTables
    """The common tables that it may use itself: those before it, and those of the queries around it."""
    within: exp.Query
    """The SELECT or UNION ALL whose WITH clause it belongs to."""


CommonTables = Mapping[str, CommonTable]  # by the name in lower case


def common_tables(source: QuerySource, select: exp.Query, outer: CommonTables) -> CommonTables:
    """The common tables that the FROM clause of a SELECT may use. As in Spark, an inner one hides an outer one of its name, and one that
    names itself means a stream, or a common table further out."""
    known = dict(outer)
    clause = select.args.get("with_")
    own: set[str] = set()
    for node in clause.expressions if clause is not None else []:
        name = node.alias.lower()
        if name in own:
            raise source.error(node.args["alias"], "two common tables have one name", "rename one of them")
        own.add(name)
        columns = [identifier.name for identifier in node.args["alias"].args.get("columns") or []]
        known[name] = CommonTable(node, node.this, columns, dict(known), select)
    return known


def read_table(source: QuerySource, node: exp.Expression) -> tuple[str, str]:
    """The name of a stream or common table in FROM, and its alias."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise source.error(node, "only streams can stand in FROM", "write the name of a stream, or a SELECT in parentheses")
    if node.args.get("db") is not None:
        raise source.error(node, "a stream has no database", "write the stream's name alone")
    alias = node.args.get("alias")
    if alias is not None and not isinstance(alias.this, exp.Identifier | None):
        raise source.error(node, "this alias is not supported", "write stream AS name")
    return node.name, source.checked_label("an alias", table_name(node), node)


def union_branches(union: exp.Union) -> list[exp.Select | exp.Union]:
    """The operands of a chain of UNION ALL, from left to right. One in parentheses may be a chain itself, with a WITH of its own."""
    branches: list[exp.Select | exp.Union] = []
    pending: list[exp.Expr] = [union.left, union.right]
    while pending:
        node = pending.pop(0)
        while isinstance(node, exp.Subquery):
            node = node.this
        if isinstance(node, exp.Union) and is_union_all(node) and node.args.get("with_") is None:
            pending = [node.left, node.right, *pending]
        else:
            branches.append(node)  # type: ignore[arg-type]
    return branches


def is_union_all(node: exp.Expr) -> bool:
    return isinstance(node, exp.Union) and node.args.get("distinct") is False


def is_top_union(select: exp.Select) -> bool:
    """Whether it stands for a UNION ALL at the top of a query, as `SELECT * FROM (… UNION ALL …)`."""
    table = select.args["from_"].this if select.args.get("from_") else None
    return isinstance(table, exp.Subquery) and isinstance(table.this, exp.Union) and TEXT_RANGE not in table.meta


def table_name(node: exp.Expression) -> str:
    """The name by which columns of a table are qualified; empty for a derived table without an alias."""
    alias = node.args.get("alias")
    return alias.name if alias is not None and alias.name else node.name if isinstance(node, exp.Table) else ""


def own_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """The nodes of a SELECT, without those of the SELECTs inside of it."""
    return (node for node in select.walk(prune=lambda node: node is not select and isinstance(node, exp.Select)))


def parts_of_from(select: exp.Select) -> list[exp.Expression]:
    """The streams, common tables and SELECTs in the FROM clause of a SELECT, joins in parentheses taken apart."""
    parts: list[exp.Expression] = []
    pending = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or [])] if select.args.get("from_") else []
    while pending:
        node = pending.pop(0)
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Subquery):
            pending = [node.this, *(join.this for join in node.this.args.get("joins") or []), *pending]
        else:
            parts.append(node)
    return parts
