"""Pass: refuses the clauses and expressions that are not supported, each with what to write instead."""

from __future__ import annotations

from sqlglot import exp

from clash.errors import QueryError
from clash.sql.draft import QueryDraft
from clash.sql.query_source import QuerySource
from clash.sql.tables import is_union_all, parts_of_from, union_branches

_AFTERWARDS = "do it on the result, e.g. on run.result_stream(name)"
_BEFOREHAND = "a SELECT inside of a query may filter, compute columns, rename and join; do other things before the stream is registered"

# clause of SELECT, by its key in sqlglot -> (keywords that begin it, what, hint)
_CLAUSES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "distinct": (("DISTINCT",), "DISTINCT is not supported", _AFTERWARDS),
    "group": (("GROUP BY", "GROUP"), "GROUP BY is not supported", _AFTERWARDS),
    "having": (("HAVING",), "HAVING is not supported", _AFTERWARDS),
    "qualify": (("QUALIFY",), "QUALIFY is not supported", _AFTERWARDS),
    "windows": (("WINDOW",), "window functions are not supported", _AFTERWARDS),
    "order": (("ORDER BY", "ORDER"), "ORDER BY is not supported", f"a stream's results have no last row to sort by; {_AFTERWARDS}"),
    "sort": (("SORT BY", "SORT"), "SORT BY is not supported", _AFTERWARDS),
    "cluster": (("CLUSTER BY", "CLUSTER"), "CLUSTER BY is not supported", "leave it out; the planner decides where rows go"),
    "distribute": (("DISTRIBUTE BY", "DISTRIBUTE"), "DISTRIBUTE BY is not supported", "leave it out; the planner decides where rows go"),
    "limit": (("LIMIT", "FETCH"), "LIMIT is not supported", _AFTERWARDS),
    "offset": (("OFFSET",), "OFFSET is not supported", _AFTERWARDS),
    "laterals": (("LATERAL",), "LATERAL is not supported", "flatten the column before the stream is registered"),
    "pivots": (("PIVOT", "UNPIVOT"), "PIVOT is not supported", _AFTERWARDS),
    "sample": (("TABLESAMPLE",), "TABLESAMPLE is not supported", "filter with a predicate, e.g. R.a % 100 = 0"),
    "locks": (("FOR",), "FOR UPDATE and FOR SHARE are not supported", "leave it out; queries lock nothing"),
    "into": (("INTO",), "INTO is not supported", "give the query a sink"),
}
_SUPPORTED_CLAUSES = {"expressions", "from_", "joins", "where", "with_"}
_UNION_ARGUMENTS = {"this", "expression", "with_"}

# node -> (what, hint); the first match counts, so special cases stand before general ones
_NODES: tuple[tuple[tuple[type, ...], str, str], ...] = (
    ((exp.Window,), "window functions are not supported", _AFTERWARDS),
    ((exp.Values,), "VALUES is not supported", "register the rows as a stream, or write a filter with IN"),
    ((exp.Explode, exp.Posexplode, exp.Inline), "functions that make rows are not supported", "flatten the column beforehand"),
    ((exp.Lateral, exp.Unnest, exp.UDTF), "LATERAL is not supported", "flatten the column before the stream is registered"),
    ((exp.AggFunc,), "aggregates are not supported", _AFTERWARDS),
    ((exp.TableSample,), "TABLESAMPLE is not supported", "filter with a predicate, e.g. R.a % 100 = 0"),
    ((exp.Pivot,), "PIVOT is not supported", _AFTERWARDS),
    ((exp.Version,), "time travel is not supported", "a stream has no versions; leave it out"),
    ((exp.Placeholder, exp.Parameter, exp.SessionParameter), "parameters are not supported", "write the value itself"),
    ((exp.Exists,), "EXISTS is not supported", "write a join; every match gives a row"),
    ((exp.Query,), "subqueries in expressions are not supported", "write a join, or make it a query of its own"),
    ((exp.Tuple,), "tuples are not supported", "compare the columns one by one, joined by AND"),
    ((exp.QueryTransform,), "functions of functions are not supported", "compute it before the stream is registered"),
)


def refuse_unsupported(draft: QueryDraft) -> None:
    """Raises for the first construct in the text that is not supported. A short form has none."""
    if isinstance(draft.syntax, exp.Select):
        errors = _find_unsupported(draft.source, draft.syntax)
        if errors:
            raise min(errors, key=lambda error: error[0])[1]


def set_operation_error(source: QuerySource, node: exp.SetOperation) -> QueryError:
    """The error for UNION, INTERSECT or EXCEPT, of whole queries and of derived tables."""
    words = ("UNION",) if isinstance(node, exp.Union) else ("INTERSECT",) if isinstance(node, exp.Intersect) else ("EXCEPT", "MINUS")
    hint = "write SELECT DISTINCT … FROM (… UNION ALL …)" if words[0] == "UNION" else "a stream never ends, so absence is never certain"
    return source.error(source.token_span(*words), f"{words[0]} is not supported", hint)


def _find_unsupported(source: QuerySource, query: exp.Select) -> list[tuple[int, QueryError]]:
    """All errors, each with its position in the text. Common tables and derived tables are SELECTs of the same kind."""
    errors: list[tuple[int, QueryError]] = []
    selects: list[exp.Expr] = [query]
    while selects:
        select = selects.pop()
        if isinstance(select, exp.Union) and is_union_all(select):
            selects += [*_common_queries(select), *union_branches(select)]
            errors += _errors_of_arguments(source, select, _UNION_ARGUMENTS, _BEFOREHAND)
        elif isinstance(select, exp.SetOperation):
            errors.append((source.span(select)[0], set_operation_error(source, select)))
        elif not isinstance(select, exp.Select):
            errors.append((source.span(select)[0], source.error(select, "only a SELECT can stand here", "write (SELECT …)")))
        else:
            inner = _inner_queries(select)
            selects += inner
            errors += _errors_of_clauses(source, select, _AFTERWARDS if select is query else _BEFOREHAND)
            errors += _errors_of_nodes(source, select, {id(node) for node in inner}, _AFTERWARDS if select is query else _BEFOREHAND)
    return errors


def _inner_queries(select: exp.Select) -> list[exp.Expr]:
    """The queries of the derived tables and common tables of a SELECT."""
    derived = [part.this for part in parts_of_from(select) if isinstance(part, exp.Subquery)]
    return [*derived, *_common_queries(select)]


def _common_queries(query: exp.Query) -> list[exp.Expr]:
    clause = query.args.get("with_")
    return [table.this for table in clause.expressions] if clause is not None else []


def _errors_of_clauses(source: QuerySource, select: exp.Select, elsewhere: str) -> list[tuple[int, QueryError]]:
    """Of one SELECT; `elsewhere` is the hint for what can be done before or after the join."""
    if not select.args.get("from_"):
        raise source.error(select, "the query has no FROM", "write SELECT … FROM R JOIN S ON …")
    if not select.expressions:
        raise source.error(source.clause_span(select, "SELECT"), "SELECT lists no columns", "write SELECT * or list columns")
    return _errors_of_arguments(source, select, _SUPPORTED_CLAUSES, elsewhere)


def _errors_of_arguments(source: QuerySource, select: exp.Query, supported: set[str], elsewhere: str) -> list[tuple[int, QueryError]]:
    errors: list[tuple[int, QueryError]] = []
    for key, value in select.args.items():
        if value and key not in supported:
            word = key.strip("_").upper()
            words, what, hint = _CLAUSES.get(key, ((word,), f"{word} is not supported", "leave it out"))
            span = source.clause_span(select, *words)
            errors.append((span[0], source.error(span, what, hint.replace(_AFTERWARDS, elsewhere))))
    clause = select.args.get("with_")
    if clause is not None and clause.args.get("recursive"):
        span = source.token_span("RECURSIVE")
        errors.append((span[0], source.error(span, "WITH RECURSIVE is not supported", "write the join itself, over streams")))
    return errors


def _errors_of_nodes(source: QuerySource, select: exp.Select, inner: set[int], elsewhere: str) -> list[tuple[int, QueryError]]:
    """Of the expressions of one SELECT, without those of the inner queries."""
    errors: list[tuple[int, QueryError]] = []
    tables = {id(node) for node in _table_nodes(select)}
    pending: list[exp.Expr] = [n for k in _SUPPORTED_CLAUSES for n in _children(select.args.get(k))]
    while pending:
        node = pending.pop()
        if id(node) in inner:
            continue
        match = next(((what, hint) for kinds, what, hint in _NODES if isinstance(node, kinds)), None)
        if id(node) in tables and not isinstance(node, exp.UDTF):
            match = None
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            match = ("IN (SELECT …) is not supported", "write a join; every match gives a row")
        if isinstance(node, exp.Star) and any(node.args.values()):
            match = ("* with EXCEPT, REPLACE or RENAME is not supported", "list the columns")
        if match:
            errors.append((source.span(node)[0], source.error(node, match[0], match[1].replace(_AFTERWARDS, elsewhere))))
            continue  # everything below it belongs to the same error
        for child in node.args.values():
            pending.extend(_children(child))
    return errors


def _table_nodes(select: exp.Select) -> list[exp.Expr]:
    """The subqueries in FROM: derived tables, and joins in parentheses."""
    found: list[exp.Expr] = []
    pending = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or [])]
    while pending:
        node = pending.pop()
        if isinstance(node, exp.Subquery):
            found.append(node)
            if not isinstance(node.this, exp.SetOperation):
                pending += [node.this, *(join.this for join in node.this.args.get("joins") or [])]
    return found


def _children(value: object) -> list[exp.Expr]:
    """The nodes in one argument of a node, which may also be a list of nodes, or a plain value."""
    return [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expr)]
