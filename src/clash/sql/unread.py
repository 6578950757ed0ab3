"""Pass: refuses what the syntax tree holds and no later pass reads, so that no part of a query is ever ignored.

sqlglot parses clauses of many databases, whatever its dialect, and leaves them in arguments of its nodes. This is therefore a list of the
arguments that this package reads, not of those that it refuses.
"""

from __future__ import annotations

from sqlglot import exp

from clash.errors import QueryError
from clash.sql.convert import BINARY, CALLS, CONNECTIVES, UNREAD
from clash.sql.draft import QueryDraft
from clash.sql.query_source import QuerySource
from clash.sql.spark_parser import UnaryPlus

# node -> its arguments that are read, or refused with a message of their own; nodes that are not listed have no conversion
READ: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset({"expressions", "from_", "joins", "where", "with_"}),
    exp.Union: frozenset({"this", "expression", "distinct", "with_"}),
    exp.With: frozenset({"expressions"}),
    exp.CTE: frozenset({"this", "alias"}),
    exp.Subquery: frozenset({"this", "alias", "joins"}),
    exp.From: frozenset({"this"}),
    exp.Where: frozenset({"this"}),
    exp.Join: frozenset({"this", "on", "using", "side", "kind", "method"}),
    exp.Table: frozenset({"this", "alias", "db", "joins"}),
    exp.TableAlias: frozenset({"this", "columns"}),
    exp.Alias: frozenset({"this", "alias"}),
    exp.Aliases: frozenset({"this", "expressions"}),
    exp.Star: frozenset(),
    **dict.fromkeys((*BINARY, *CONNECTIVES, exp.NullSafeNEQ, exp.Nullif), frozenset({"this", "expression"})),
    **{kind: frozenset(keys) for kind, (_, keys) in CALLS.items()},
    **dict.fromkeys((exp.Cast, exp.TryCast), frozenset({"this", "to", "format", "safe"})),
    **dict.fromkeys((exp.Literal, exp.RawString, exp.Boolean, exp.Paren, exp.Var, exp.DataTypeParam, UnaryPlus), frozenset({"this"})),
    exp.Anonymous: frozenset({"this", "expressions"}),
    exp.Extract: frozenset({"this", "expression"}),
    exp.Trim: frozenset({"this", "expression", "position"}),
    **dict.fromkeys((exp.Like, exp.ILike, exp.Escape, exp.Is), frozenset({"this", "expression", "negate"})),
    exp.Null: frozenset(),
    exp.Column: frozenset({"this", "table", "db", "catalog"}),
    exp.Identifier: frozenset({"this"}),
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.If: frozenset({"this", "true", "false"}),
    exp.Between: frozenset({"this", "low", "high", "symmetric"}),
    exp.In: frozenset({"this", "expressions", "query", "unnest", "field", "is_global"}),
    exp.Interval: frozenset({"this", "unit"}),
    exp.DataType: frozenset({"this", "expressions", "nested", "values", "kind"}),
    exp.TsOrDsToDate: frozenset({"this"}),
}
# flags that sqlglot sets for Spark's own meaning, or to print the query again
FLAGS: dict[type[exp.Expr], dict[str, object]] = {
    exp.Literal: {"is_string": True}, exp.Identifier: {"quoted": True}, exp.Div: {"safe": True}, exp.DPipe: {"safe": True},
    exp.Concat: {"safe": True}, exp.Greatest: {"ignore_nulls": True}, exp.Least: {"ignore_nulls": True},
    exp.Interval: {"fraction_in_string": True},
}  # fmt: skip
# argument -> (keywords that begin it, what is not supported)
_NAMED: dict[str, tuple[tuple[str, ...], str]] = {
    "when": (("AT", "BEFORE"), "time travel"),
    "changes": (("CHANGES",), "CHANGES"),
    "hints": (("WITH", "USE", "FORCE", "IGNORE"), "a table hint"),
    "system_time": (("FOR",), "FOR SYSTEM_TIME"),
    "ordinality": (("WITH",), "WITH ORDINALITY"),
    "only": (("ONLY",), "ONLY"),
    "partition": (("PARTITION",), "PARTITION"),
    "match_condition": (("MATCH_CONDITION",), "MATCH_CONDITION"),
    "join_mark": (("+",), "the outer join mark (+)"),
}


def refuse_unread(draft: QueryDraft) -> None:
    """Raises for an argument of a node that nothing reads. A short form has none."""
    if not isinstance(draft.syntax, exp.Select):
        return
    pending: list[exp.Expr] = [draft.syntax]
    while pending:
        node = pending.pop()
        read = READ.get(type(node))
        if read is None:
            continue  # the passes that read its parent have no conversion for it, and say so
        flags = FLAGS.get(type(node), {})
        for key, value in node.args.items():
            if key not in read and not (key in flags and value == flags[key]) and value not in (None, False, [], ""):
                error = _unread(draft.source, node, key, value)
                if type(node) not in CALLS:
                    raise error
                node.meta[UNREAD] = error  # its conversion raises it, unless Spark computes the call
            pending += [child for child in (value if isinstance(value, list) else [value]) if isinstance(child, exp.Expr)]


def _unread(source: QuerySource, node: exp.Expr, key: str, value: object) -> QueryError:
    if isinstance(node, exp.Func):
        name = node.sql_name()
        return source.error(node, f"this form of {name} is not supported", f"write {name} with its plain arguments")
    words, what = _NAMED.get(key, ((key.strip("_").upper(),), key.strip("_").upper()))
    span = source.token_span(*words)
    whole_text = (0, len(source.text))
    parts = [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, exp.Expression)]
    if span == whole_text:
        span = source.span(parts[0] if parts else node)
    return source.error(span, f"{what} is not supported", "leave it out; a stream has its rows and nothing else")
