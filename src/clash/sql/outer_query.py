"""Passes: a query with aggregates, GROUP BY, HAVING or DISTINCT becomes a join core and an outer query over it.

The join core is the FROM and WHERE of the text, and gives the columns that the rest of the text names. The rest is the outer query. It is
SQL for Spark and keeps its text, except for the names of columns: Spark, and not sqlglot, decides what it means.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from clash.errors import QueryError
from clash.model.expressions import Col
from clash.model.outer_query import GROUPS, JOIN_CORE, EventTime, OuterQuery
from clash.sql.computed import first_parts, resolve_with_fields
from clash.sql.draft import DetachedOuter, QueryDraft
from clash.sql.nested_groups import ALL_GROUPS, OUTER_CLAUSES, find_nested_groups, has_groups
from clash.sql.query_source import QuerySource, Span, keyword
from clash.sql.tables import is_top_union
from clash.sql.window_items import WindowItems, split_window_items

_TIME_WINDOWS = ("window", "session_window")  # functions of a row's event time, and the names of their columns
_OPEN, _CLOSE = ("(", "[", "{"), (")", "]", "}")
_ROW = "row"  # the column of a join core of which no column is named, as for count(*)


def detach_outer(draft: QueryDraft) -> None:
    """Sets `detached` and leaves the join core in `syntax`; a query without aggregates, GROUP BY, HAVING and DISTINCT stays as it is."""
    select, final = draft.syntax, None
    if not isinstance(select, exp.Select):
        return
    nested = find_nested_groups(draft.source, select)
    if nested is not None:
        _refuse_order(draft.source, select)
        draft.syntax, select, final = nested.select, nested.select, nested.final
    if not has_groups(select):
        return
    whole = select.copy()
    items = split_window_items(draft.source, whole)
    for part in (*whole.expressions, *(whole.args[key] for key in OUTER_CLAUSES if whole.args.get(key))):
        subquery = part.find(exp.Query)
        if subquery is not None:
            raise draft.source.error(subquery, "subqueries are not supported", "write a join, or make it a query of its own")
        window = part.find(exp.Window)
        if window is not None and items is None:
            hint = "Spark has window functions on streams by time only: write GROUP BY window(ts, '10 minutes')"
            raise draft.source.error(window, "window functions are not supported", hint)
    draft.detached = detached = DetachedOuter(whole, final=final, items=items)
    for key in OUTER_CLAUSES:
        select.set(key, None)
    star = next((item for item in whole.expressions if _is_star(item)), None)
    if star is None:
        names = _output_names(whole)
        for column in _columns(whole):
            if not _may_be_output(column, names):
                detached.columns.setdefault(_core_name(column), column)
        _set_core(select, detached)
    elif len(whole.expressions) > 1 or whole.args.get("group") or whole.args.get("having"):
        raise draft.source.error(star, "* cannot stand beside aggregates or other outputs here", "list the columns")


def _refuse_order(source: QuerySource, select: exp.Select) -> None:
    """Of the whole query; inside of it, over groups, they may stand."""
    whole = select.args["from_"].this.this if is_top_union(select) else select
    for key, word in {"order": "ORDER BY", "limit": "LIMIT", "offset": "OFFSET"}.items():
        if whole.args.get(key):
            raise source.error(
                source.clause_span(select, word), f"{word} is not supported", "do it on the result, e.g. on run.results(name)"
            )


def resolve_outer(draft: QueryDraft) -> None:
    """Sets `outer`. Of names that may be columns of streams or outputs of the query, as Spark does it the columns come first: those become
    columns of the join core, too."""
    detached, select = draft.detached, draft.syntax
    if detached is None or not isinstance(select, exp.Select):
        return
    is_star = _is_star(detached.select.expressions[0])  # of DISTINCT: the join core gives the columns that it stands for
    replaced: dict[Span, str] = {}
    event_time: EventTime | None = None
    names = _output_names(detached.select)
    for column in _columns(detached.select):
        try:
            expression, fields = resolve_with_fields(column, draft.scope, draft.source)
        except QueryError:
            if not _may_be_output(column, names):
                raise
            continue
        whole = first_parts(column, len(column.parts) - len(fields)) if fields else column
        if fields:
            detached.columns.pop(_core_name(column), None)
        name = _core_name(whole)
        detached.columns.setdefault(name, whole)
        replaced[draft.source.span(column)] = ".".join(map(_quoted, [name, *fields]))
        if event_time is None and isinstance(expression, Col) and _groups_by_time(column):
            stream = draft.streams[expression.relation.stream]
            event_time = EventTime(name, expression.relation) if stream.time == expression.column else None
    if not is_star:
        _set_core(select, detached)
    if detached.items is None:
        draft.outer = OuterQuery(_outer_sql(draft.source, detached.select, replaced), event_time, detached.final)
    else:
        draft.outer = _split(draft.source, detached, detached.items, replaced)


def _is_star(item: exp.Expression) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and item.is_star)


def _columns(select: exp.Select) -> Iterator[exp.Column]:
    """The columns that the outer query names, in the order of the text."""
    for part in (*select.expressions, select.args.get("group"), select.args.get("having")):
        if part is not None:
            yield from (node for node in part.find_all(exp.Column, bfs=False) if isinstance(node.this, exp.Identifier))


def _output_names(select: exp.Select) -> set[str]:
    """What names may refer to that are no columns of streams: outputs, and the columns of windows."""
    return {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)} | set(_TIME_WINDOWS)


def _may_be_output(column: exp.Column, names: set[str]) -> bool:
    """Whether the name, or the struct that it is a field of, is one of the names of outputs."""
    table = column.args.get("table")
    return (column.name if table is None else table.name).lower() in names


def _core_name(column: exp.Column) -> str:
    """What the output of the join core is called: the name as it is written, which is one whatever its case."""
    return ".".join(part.name for part in column.parts).lower()


def _groups_by_time(column: exp.Column) -> bool:
    """Whether the column is grouped by as it is, or is what a window of time is made of."""
    parent = column.parent
    if isinstance(parent, exp.Anonymous) and parent.name.lower() in _TIME_WINDOWS:
        return parent.expressions[0] is column
    if isinstance(parent, exp.Alias):
        parent = parent.parent
    return isinstance(parent, exp.Group) or (isinstance(parent, exp.Select) and bool(parent.args.get("distinct")))


def _set_core(select: exp.Select, detached: DetachedOuter) -> None:
    """Makes the join core give the columns; a row of which nothing is named has one all the same."""
    items: list[exp.Expression] = [
        exp.Alias(this=column.copy(), alias=exp.to_identifier(name, quoted=True)) for name, column in detached.columns.items()
    ]
    row = exp.Alias(this=exp.true(), alias=exp.to_identifier(_ROW))
    select.set("expressions", items or [row])


# ---- the text of the outer query ---------------------------------------------------------------------------------


def _outer_sql(source: QuerySource, select: exp.Select, replaced: dict[Span, str]) -> str:
    items, clauses = _item_spans(source, source.span(select))
    texts = _named_items(source, select, items, replaced)
    sql = f"SELECT {', '.join(texts)} FROM {JOIN_CORE} {_spliced(source.text, clauses, replaced)}".rstrip()
    if not select.args.get("distinct"):
        return sql
    is_plain = not any(select.args.get(key) for key in ("group", "having")) and not any(i.find(exp.AggFunc) for i in select.expressions)
    return f"{sql} GROUP BY ALL" if is_plain else f"SELECT * FROM ({sql}) GROUP BY ALL"


def _split(source: QuerySource, detached: DetachedOuter, items: WindowItems, replaced: dict[Span, str]) -> OuterQuery:
    """Groups, and SQL over them with window functions. All groups are needed then, so no event time matters."""
    spans, clauses = _item_spans(source, source.span(detached.select))
    outputs = (f"{_spliced(source.text, source.span(node), replaced)} AS {_quoted(name)}" for name, node in items.outputs.items())
    sql = f"SELECT {', '.join(outputs)} FROM {JOIN_CORE} {_spliced(source.text, clauses, replaced)}"
    names = {span: _quoted(name) for span, name in items.names.items()}
    over = f"SELECT {', '.join(_named_items(source, detached.select, spans, names))} FROM {GROUPS}"
    return OuterQuery(sql, None, over if detached.final is None else detached.final.replace(ALL_GROUPS, over, 1))


def _named_items(source: QuerySource, select: exp.Select, spans: list[Span], replaced: dict[Span, str]) -> list[str]:
    """The items of a SELECT list, in which columns and expressions have other names, each under the name that it has."""
    if len(spans) != len(select.expressions):
        raise source.error((0, len(source.text)), "the SELECT list cannot be read", "name every output: expression AS name")
    texts = []
    for node, span in zip(select.expressions, spans, strict=True):
        text = _spliced(source.text, span, replaced)
        if _is_star(node):
            text = "*"
        elif isinstance(node, exp.Column):
            text += f" AS {_quoted(node.name)}"
        elif not isinstance(node, exp.Alias) and not _is_time_window(node):
            text += f" AS {_quoted(' '.join(source.text[slice(*span)].split()))}"
        texts.append(text)
    return texts


def _is_time_window(node: exp.Expression) -> bool:
    """Spark calls its column `window`, and fields of it are named by that."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in _TIME_WINDOWS


def _item_spans(source: QuerySource, select: Span) -> tuple[list[Span], Span]:
    """Where the items of the SELECT list of a SELECT stand, and its clauses from GROUP BY or HAVING on."""
    items: list[Span] = []
    depth, start, end, state = 0, -1, 0, "before"
    clauses = (select[1], select[1])
    previous = ""
    for token in (token for token in source.tokens if select[0] <= token.start and token.end < select[1]):
        word = keyword(token)
        depth += (word in _OPEN) - (word in _CLOSE)
        is_clause = token.token_type in (TokenType.GROUP_BY, TokenType.HAVING)
        if depth == 0 and state == "before" and word == "SELECT":
            state = "items"
        elif state == "items" and depth == 0 and (word == "," or (word == "FROM" and previous != "DISTINCT")):
            items.append((start, end))
            start, state = -1, "items" if word == "," else "from"
        elif state == "items" and token.token_type is not TokenType.HINT and not (start < 0 and word in ("DISTINCT", "ALL")):
            start, end = token.start if start < 0 else start, token.end + 1
        elif state == "from" and depth == 0 and is_clause:
            clauses, state = (token.start, token.end + 1), "clauses"
        elif state == "clauses" and token.token_type is not TokenType.SEMICOLON:
            clauses = (clauses[0], token.end + 1)
        previous = word
    return items, clauses


def _spliced(text: str, span: Span, replaced: dict[Span, str]) -> str:
    """A part of the text, in which columns have the names of the join core."""
    parts, at = [], span[0]
    for (start, end), name in sorted(replaced.items()):
        if span[0] <= start and end <= span[1]:
            parts += [text[at:start], name]
            at = end
    return "".join([*parts, text[at : span[1]]])


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
