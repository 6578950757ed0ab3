"""The join cores of a query: what of each of its SELECTs joins, whatever is done with the rows.

A core is FROM and WHERE of a SELECT with several tables, without conditions that contain subqueries or refer to a query around it. A
derived or common table that does more than filter, project and join is a stream of its own in it: a user would register it as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import TokenType
from tests.suites.texts import Schema


class _Generator(Spark.Generator):
    """Writes a comma for a join without any word."""

    def join_sql(self, expression: exp.Join) -> str:
        words = ("method", "side", "kind", "on", "using")
        return super().join_sql(expression) if any(expression.args.get(w) for w in words) else f", {self.sql(expression, 'this')}"


def _sql(node: exp.Expr) -> str:
    return _Generator(pretty=True, dialect="spark").generate(node)


_CLAUSES = ("group", "having", "distinct", "order", "limit", "qualify")


@dataclass(frozen=True)
class Core:
    text: str
    tables: dict[str, str] = field(default_factory=dict)
    """By name, the SQL of the tables that are no tables of the schema."""


def join_cores(text: str, schema: Schema) -> list[Core]:
    """The join cores of all SELECTs of a query, in the order of the text."""
    tree = sqlglot.parse_one(text, dialect="spark")
    if "CROSS JOIN" not in " ".join(text.upper().split()):  # sqlglot takes a comma for one, which says that no equality is needed
        for join in tree.find_all(exp.Join):
            join.set("kind", None if join.kind == "CROSS" else join.args.get("kind"))
    common = {cte.alias: cte.this for cte in tree.find_all(exp.CTE)}
    selects = [select for select in tree.find_all(exp.Select, bfs=False) if select.args.get("joins")]
    return [_core(select, common, schema) for select in selects]


def without_order(text: str) -> str:
    """The query without the ORDER BY and LIMIT of its outermost SELECT."""
    tokens = sqlglot.tokenize(text, dialect="spark")
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.token_type in (TokenType.ORDER_BY, TokenType.LIMIT, TokenType.SEMICOLON):
            return text[: token.start]
    return text


def _is_join(node: exp.Expr) -> bool:
    """Whether a table is part of the join around it: it filters, projects, renames and joins, or adds such tables by UNION ALL."""
    if isinstance(node, exp.Union):
        return node.args.get("distinct") is False and all(map(_is_join, (node.left, node.right)))
    if isinstance(node, exp.Subquery):
        return _is_join(node.this)
    if not isinstance(node, exp.Select):
        return True
    own = [item.find(exp.AggFunc, exp.Window) for item in node.expressions]
    return not any(node.args.get(key) for key in _CLAUSES) and not any(own)


def _core(select: exp.Select, common: dict[str, exp.Expr], schema: Schema) -> Core:
    tables: dict[str, str] = {}
    inlined: dict[str, exp.Expr] = {}
    core = select.copy()
    _replace_tables(core, common, tables, inlined)
    names = {name.lower(): columns for name, columns in _columns_in_from(core, schema).items()}
    where = core.args.get("where")
    kept = [part for part in where.this.flatten() if _belongs(part, names)] if where is not None and isinstance(where.this, exp.And) else []
    if where is not None and not isinstance(where.this, exp.And) and _belongs(where.this, names):
        kept = [where.this]
    for join in core.args.get("joins") or []:
        on = join.args.get("on")
        if on is not None and on.find(exp.Query) is not None:
            join.set("on", None)
    columns = dict.fromkeys(_sql(column) for item in core.expressions for column in _own_columns(item) if _belongs(column, names))
    made = exp.select(*[f"{column} AS c{at}" for at, column in enumerate(columns)] or ["true AS row"], dialect="spark")
    made.set("from_", core.args["from_"])
    made.set("joins", core.args["joins"])
    made.set("where", exp.Where(this=exp.and_(*kept, copy=False)) if kept else None)
    for name, query in inlined.items():
        made = made.with_(name, as_=query.copy(), dialect="spark")
    around = ", ".join(f"{name} AS ({_sql(query)})" for name, query in common.items())
    with_common = {name: f"WITH {around} {sql}" if around else sql for name, sql in tables.items()}
    return Core(_sql(made), with_common)


def _replace_tables(select: exp.Expr, common: dict[str, exp.Expr], tables: dict[str, str], inlined: dict[str, exp.Expr]) -> None:
    """Makes streams of the tables in FROM that are no joins; `inlined` gets the common tables that are."""
    parts = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or [])] if select.args.get("from_") else []
    for node in parts:
        if isinstance(node, exp.Table) and node.name in common and node.name not in inlined:
            if _is_join(common[node.name]):
                query = common[node.name].copy()
                inlined[node.name] = query
                for inner in query.find_all(exp.Select):
                    _replace_tables(inner, common, tables, inlined)
            else:
                tables[node.name] = f"SELECT * FROM {node.name}"
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            if _is_join(node.this):
                for inner in node.this.find_all(exp.Select):
                    _replace_tables(inner, common, tables, inlined)
            else:
                name = f"derived_{len(tables)}"
                tables[name] = _sql(node.this)
                node.replace(exp.alias_(exp.to_table(name), node.alias or name, table=True))


def _columns_in_from(core: exp.Select, schema: Schema) -> dict[str, set[str] | None]:
    """By the name of a table in FROM its columns; None where they are not known here."""
    parts = [core.args["from_"].this, *(join.this for join in core.args["joins"])]
    return {part.alias_or_name: set(schema[part.name]) if isinstance(part, exp.Table) and part.name in schema else None for part in parts}


def _belongs(node: exp.Expr, names: dict[str, set[str] | None]) -> bool:
    """Whether a condition has no subquery, and names tables of its own SELECT only."""
    if node.find(exp.Query) is not None:
        return False
    for column in node.find_all(exp.Column):
        table = column.table.lower()
        if table and table not in names:
            return False
        if not table and not any(columns is None or column.name.lower() in columns for columns in names.values()):
            return False
    return True


def _own_columns(node: exp.Expr) -> Iterator[exp.Column]:
    own = node.walk(prune=lambda n: isinstance(n, exp.Query))
    return (n for n in own if isinstance(n, exp.Column) and isinstance(n.this, exp.Identifier))
