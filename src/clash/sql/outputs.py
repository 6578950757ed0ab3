"""Pass: the SELECT list to named outputs.

Spark allows two result columns of one name but cannot write them to a file. Here `*` calls a column that several aliases have
`alias_column`, and explicit names must differ.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from clash.model.query import Output
from clash.sql.convert import convert_expression
from clash.sql.draft import QueryDraft
from clash.sql.normal_form import normalise
from clash.sql.query_source import QuerySource, Span, keyword
from clash.sql.scope import Scope

_OPEN, _CLOSE, _ENDS = ("(", "[", "{"), (")", "]", "}"), (",", "FROM", "WHERE", ";")
_Item = tuple[Output, exp.Expression, str]  # the last is the `alias_column` name of a column of `*`, otherwise empty


def resolve_outputs(draft: QueryDraft) -> None:
    """Sets `outputs`; those of a short form are its attributes."""
    if isinstance(draft.syntax, tuple):
        draft.outputs = tuple(output for output, _ in _star(draft.scope))
    else:
        draft.outputs = _of_select(draft.source, draft.syntax, draft.scope)


def _of_select(source: QuerySource, select: exp.Select, scope: Scope) -> tuple[Output, ...]:
    nodes = select.expressions
    spans = _item_spans(source)
    if len(spans) != len(nodes):  # an item without AS is named by its text, which must then be certain
        raise source.error(source.token_span("SELECT"), "the SELECT list cannot be read", "name every output: expression AS name")
    items = [item for node, span in zip(nodes, spans, strict=True) for item in _expand(source, node, span, scope)]
    count = Counter(output.name.lower() for output, _, _ in items)
    seen: set[str] = set()
    outputs: list[Output] = []
    for output, node, qualified_name in items:
        name = qualified_name if qualified_name and count[output.name.lower()] > 1 else output.name
        if name.lower() in seen:
            raise source.error(node, f"two outputs are called {name}", "name them apart with AS")
        seen.add(name.lower())
        outputs.append(Output(source.checked_label("an output", name, node), output.expression))
    if not outputs:
        raise source.error(source.token_span("SELECT"), "* stands for no column here", "no streams are declared, so list the columns")
    return tuple(outputs)


def _star(scope: Scope) -> list[tuple[Output, str]]:
    """The columns of `*`, each with its `alias_column` name."""
    firsts = [(column.name, column.attributes[0]) for column in scope.visible]
    return [(Output(name, scope.col(first)), f"{scope.alias_of(first.relation).name}_{name}") for name, first in firsts]


def _item_spans(source: QuerySource) -> list[Span]:
    """Where the items of the SELECT list stand: between commas outside parentheses. The FROM of IS DISTINCT FROM does not end the list."""
    at = next((n for n, token in enumerate(source.tokens) if keyword(token) == "SELECT"), 0)
    spans: list[Span] = []
    start: int | None = None
    depth = end = 0
    for before, token in pairwise(source.tokens[at:]):
        word = keyword(token)
        depth += (word in _OPEN) - (word in _CLOSE)
        if depth == 0 and word in _ENDS and not (word == "FROM" and keyword(before) == "DISTINCT"):
            if start is not None:
                spans.append((start, end))
            start = None
            if word != ",":
                return spans
        elif token.token_type is not TokenType.HINT and not (word == "ALL" and keyword(before) == "SELECT"):
            start = token.start if start is None else start
            end = token.end + 1
    return [*spans, (start, end)] if start is not None else spans


def _expand(source: QuerySource, node: exp.Expression, span: Span, scope: Scope) -> list[_Item]:
    """One item of the SELECT list: several outputs for `*` and `alias.*`, otherwise one."""
    if isinstance(node, exp.Star):
        return [(output, node, qualified_name) for output, qualified_name in _star(scope)]
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        table = node.args.get("table")
        if table is None or node.args.get("db") is not None:
            raise source.error(node, "fields inside a column are not supported", "write alias.*")
        alias = scope.resolve_alias(source, table.name, source.span(table))
        return [(Output(column, alias.col(column)), node, f"{alias.name}_{column}") for column, _ in alias.stream.columns]
    if isinstance(node, exp.Aliases) or (isinstance(node, exp.Alias) and not isinstance(node.args.get("alias"), exp.Identifier)):
        raise source.error(node, "this alias is not supported", "write expression AS name")
    inner = node.this if isinstance(node, exp.Alias) else node
    expression = normalise(convert_expression(inner, scope, source))
    if isinstance(node, exp.Alias):
        name = node.alias
    elif isinstance(inner, exp.Column):
        name = inner.name  # the spelling in the query, which is also the name that Spark gives the column
    else:
        name = " ".join(source.text[span[0] : span[1]].split())
    return [(Output(name, expression), node, "")]
