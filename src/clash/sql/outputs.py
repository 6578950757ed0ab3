"""Pass: the SELECT list to named outputs.

Spark allows two result columns of one name, and refuses to write them to files, which is what becomes of every result. Here `*` calls a
column that several tables have `table_column`, and explicit names must differ. In a derived table they may be equal, as in Spark: a name
that refers to two is refused.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from clash.model.expressions import Expr
from clash.model.query import Output
from clash.sql.convert import convert_expression
from clash.sql.draft import QueryDraft
from clash.sql.normal_form import normalise
from clash.sql.query_source import QuerySource, Span, keyword
from clash.sql.scope import Scope, ScopeColumn, as_column

TWO_OF_ONE_NAME = "name them apart with AS: no file has two columns of one name"
_OPEN, _CLOSE, _ENDS = ("(", "[", "{"), (")", "]", "}"), (",", "FROM", "WHERE", ";")


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One column of a SELECT list, with `*` expanded."""

    name: str
    expression: Expr
    """Typed, not yet in normal form."""
    node: exp.Expression
    qualified_name: str = ""
    """Of a column of `*`: the name that it gets if another column has the same one."""
    named: bool = True
    """False for a computed column without AS, whose name is its text."""


def resolve_outputs(draft: QueryDraft) -> None:
    """Sets `outputs`; those of a short form are its attributes."""
    if isinstance(draft.syntax, tuple):
        draft.outputs = tuple(Output(column.name, column.expression) for column in draft.scope.visible)
    else:
        draft.outputs = _of_select(draft.source, draft.syntax, draft.scope)


def _of_select(source: QuerySource, select: exp.Select, scope: Scope) -> tuple[Output, ...]:
    items = select_items(source, select, scope, is_result=True)
    count = Counter(item.name.lower() for item in items)
    seen: set[str] = set()
    outputs: list[Output] = []
    for item in items:
        name = item.qualified_name if item.qualified_name and count[item.name.lower()] > 1 else item.name
        if name.lower() in seen:
            raise source.error(item.node, f"two outputs are called {name}", TWO_OF_ONE_NAME)
        seen.add(name.lower())
        outputs.append(Output(source.checked_label("an output", name, item.node), normalise(item.expression)))
    return tuple(outputs)


def select_items(source: QuerySource, select: exp.Select, scope: Scope, is_result: bool = False) -> list[SelectItem]:
    """The columns of a SELECT list. As in Spark, an item may use the alias of an item to its left where no table has such a column.
    `is_result`: whether they are the query's own, and nothing else uses them."""
    nodes = select.expressions
    has_names = all(isinstance(node, exp.Alias | exp.Star) for node in nodes)  # so no item, as none of a join core, is named by its text
    spans = [source.span(node) for node in nodes] if has_names else _item_spans(source, select)
    if len(spans) != len(nodes):  # an item without AS is named by its text, which must then be certain
        raise source.error(source.clause_span(select, "SELECT"), "the SELECT list cannot be read", "name every output: expression AS name")
    items: list[SelectItem] = []
    for node, span in zip(nodes, spans, strict=True):
        expanded = _expand(source, node, span, scope, is_result)
        if isinstance(node, exp.Alias):
            scope = replace(scope, computed=(*scope.computed, *((item.name, as_column(item.expression)) for item in expanded)))
        items += expanded
    if not items:
        raise source.error(
            source.clause_span(select, "SELECT"), "* stands for no column here", "no streams are declared, so list the columns"
        )
    return items


def _item_spans(source: QuerySource, select: exp.Select) -> list[Span]:
    """Where the items of the SELECT list stand: between commas outside parentheses. The FROM of IS DISTINCT FROM does not end the list."""
    at = source.clause_index(select, "SELECT") or 0
    spans: list[Span] = []
    start: int | None = None
    depth = end = 0
    for before, token in pairwise(source.tokens[at:]):
        word = keyword(token)
        depth += (word in _OPEN) - (word in _CLOSE)
        if depth < 0 or (depth == 0 and word in _ENDS and not (word == "FROM" and keyword(before) == "DISTINCT")):
            if start is not None:
                spans.append((start, end))
            start = None
            if word != ",":
                return spans
        elif token.token_type is not TokenType.HINT and not (word == "ALL" and keyword(before) == "SELECT"):
            start = token.start if start is None else start
            end = token.end + 1
    return [*spans, (start, end)] if start is not None else spans


def _expand(source: QuerySource, node: exp.Expression, span: Span, scope: Scope, is_result: bool) -> list[SelectItem]:
    """One item of the SELECT list: several columns for `*` and `table.*`, otherwise one."""
    if isinstance(node, exp.Star):
        return [_star_item(column, node) for column in scope.visible]
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        table = node.args.get("table")
        if table is None or node.args.get("db") is not None:
            raise source.error(node, "fields inside a column are not supported", "write alias.*")
        return [_star_item(column, node) for column in scope.resolve_table(source, table.name, source.span(table))]
    if isinstance(node, exp.Aliases) or (isinstance(node, exp.Alias) and not isinstance(node.args.get("alias"), exp.Identifier)):
        raise source.error(node, "this alias is not supported", "write expression AS name")
    inner = node.this if isinstance(node, exp.Alias) else node
    expression = convert_expression(inner, scope, source, is_output=is_result)
    if isinstance(node, exp.Alias):
        return [SelectItem(node.alias, expression, node)]
    if isinstance(inner, exp.Column):
        return [SelectItem(inner.name, expression, node)]  # the spelling in the query, which is also the name that Spark gives the column
    return [SelectItem(" ".join(source.text[span[0] : span[1]].split()), expression, node, named=False)]


def _star_item(column: ScopeColumn, node: exp.Expression) -> SelectItem:
    qualified = f"{column.table}_{column.name}" if column.table else column.name
    return SelectItem(column.name, column.expression, node, qualified, column.named)
