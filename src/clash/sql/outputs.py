"""The SELECT list to named outputs.

Spark allows two result columns of one name but cannot write them to a file. Here `*` names a column that several
aliases have `alias_column`, and names that were written out must differ.
"""

from __future__ import annotations

from collections import Counter

from sqlglot import exp

from clash.model.query import Output
from clash.sql.convert import convert
from clash.sql.normal_form import normalise
from clash.sql.scope import Scope, Visible
from clash.sql.query_source import Source, Span

_OPEN, _CLOSE, _ENDS = ("(", "[", "{"), (")", "]", "}"), (",", "FROM", "WHERE", ";")
_Item = tuple[Output, exp.Expression, str]  # `str`: the longer name of a starred column, or nothing


def read_outputs(source: Source, select: exp.Select, scope: Scope) -> tuple[Output, ...]:
    nodes = select.expressions
    pieces = _pieces(source)
    if len(pieces) != len(nodes):
        pieces = [source.span(node) for node in nodes]
    items = [item for node, piece in zip(nodes, pieces, strict=True) for item in _item(source, node, piece, scope)]
    count = Counter(output.name.lower() for output, _, _ in items)
    seen: set[str] = set()
    outputs: list[Output] = []
    for output, node, longer in items:
        name = longer if longer and count[output.name.lower()] > 1 else output.name
        if name.lower() in seen:
            raise source.error(node, f"two outputs are called {name}", "name them apart with AS")
        seen.add(name.lower())
        outputs.append(Output(name, output.expression))
    if not outputs:
        raise source.error(source.token_span("SELECT"), "* stands for no column here", "no streams are declared, so list the columns")
    return tuple(outputs)


def star(scope: Scope, visible: tuple[Visible, ...]) -> list[tuple[Output, str]]:
    return [(Output(v.name, scope.col(v.same[0])), f"{scope.of(v.same[0].relation).name}_{v.name}") for v in visible]


def _pieces(source: Source) -> list[Span]:
    """Where the items of the SELECT list stand: between commas outside parentheses."""
    at = next((n for n, token in enumerate(source.tokens) if token.text.upper() == "SELECT"), 0)
    pieces: list[Span] = []
    start: int | None = None
    depth = end = 0
    for token in source.tokens[at + 1 :]:
        word = token.text.upper()
        depth += (word in _OPEN) - (word in _CLOSE)
        if depth == 0 and word in _ENDS:
            if start is not None:
                pieces.append((start, end))
            start = None
            if word != ",":
                return pieces
        elif token.token_type.name != "HINT":
            start = token.start if start is None else start
            end = token.end + 1
    return [*pieces, (start, end)] if start is not None else pieces


def _item(source: Source, node: exp.Expression, piece: Span, scope: Scope) -> list[_Item]:
    if isinstance(node, exp.Star):
        return [(output, node, longer) for output, longer in star(scope, scope.visible)]
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        table = node.args.get("table")
        if table is None or node.args.get("db") is not None:
            raise source.error(node, "fields inside a column are not supported", "write alias.*")
        alias = scope.alias(source, table.name, source.span(table))
        return [(Output(c, alias.col(c)), node, f"{alias.name}_{c}") for c, _ in alias.stream.columns]
    if isinstance(node, exp.Aliases) or (isinstance(node, exp.Alias) and not isinstance(node.args.get("alias"), exp.Identifier)):
        raise source.error(node, "this alias is not supported", "write expression AS name")
    inner = node.this if isinstance(node, exp.Alias) else node
    expression = normalise(convert(inner, scope, source))
    if isinstance(node, exp.Alias):
        name = node.alias
    elif isinstance(inner, exp.Column):
        name = inner.name  # as it was written: that is the name Spark gives it
    else:
        name = " ".join(source.text[piece[0] : piece[1]].split())
    if not name:
        raise source.error(node, "an output has an empty name", "write expression AS name")
    return [(Output(name, expression), node, "")]
