"""Pass: refuses the clauses and expressions that are not supported, each with what to write instead."""

from __future__ import annotations

from sqlglot import exp

from clash.errors import QueryError
from clash.sql.draft import QueryDraft
from clash.sql.query_source import QuerySource

_AFTERWARDS = "do it on the result, e.g. on run.result_stream(name)"

# clause of SELECT, by its key in sqlglot -> (keywords that begin it, what, hint)
_CLAUSES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "with_": (("WITH",), "WITH is not supported", "write the join itself, over streams"),
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
_SUPPORTED_CLAUSES = {"expressions", "from_", "joins", "where"}

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
    ((exp.Query, exp.Exists, exp.SetOperation), "subqueries are not supported", "write a join, or make it a query of its own"),
    ((exp.Tuple,), "tuples are not supported", "compare the columns one by one, joined by AND"),
    ((exp.Lambda, exp.QueryTransform), "functions of functions are not supported", "compute it before the stream is registered"),
)


def refuse_unsupported(draft: QueryDraft) -> None:
    """Raises for the first construct in the text that is not supported. A short form has none."""
    if isinstance(draft.syntax, exp.Select):
        errors = _find_unsupported(draft.source, draft.syntax)
        if errors:
            raise min(errors)[2]


def _find_unsupported(source: QuerySource, select: exp.Select) -> list[tuple[int, int, QueryError]]:
    """All errors, each with its position in the text and a running number that breaks ties."""
    errors: list[tuple[int, int, QueryError]] = []
    for key, value in select.args.items():
        if value and key not in _SUPPORTED_CLAUSES:
            words, what, hint = _CLAUSES.get(key, ((key.strip("_").upper(),), f"{key.strip('_').upper()} is not supported", "leave it out"))
            span = source.token_span(*words)
            errors.append((span[0], len(errors), source.error(span, what, hint)))
    pending: list[exp.Expr] = [n for k in _SUPPORTED_CLAUSES for n in _children(select.args.get(k))]
    while pending:
        node = pending.pop()
        match = next(((what, hint) for kinds, what, hint in _NODES if isinstance(node, kinds)), None)
        if isinstance(node, exp.Subquery) and isinstance(node.unnest(), exp.Table):
            match = ("joins in parentheses are not supported", "write the joins one after the other, without parentheses")
        if isinstance(node, exp.Star) and any(node.args.values()):
            match = ("* with EXCEPT, REPLACE or RENAME is not supported", "list the columns")
        if match:
            errors.append((source.span(node)[0], len(errors), source.error(node, *match)))
            continue  # everything below it belongs to the same error
        for child in node.args.values():
            pending.extend(_children(child))
    if not select.args.get("from_"):
        raise source.error((0, len(source.text)), "the query has no FROM", "write SELECT … FROM R JOIN S ON …")
    if not select.expressions:
        raise source.error(source.token_span("SELECT"), "SELECT lists no columns", "write SELECT * or list columns")
    return errors


def _children(value: object) -> list[exp.Expr]:
    """The nodes in one argument of a node, which may also be a list of nodes, or a plain value."""
    return [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expr)]
