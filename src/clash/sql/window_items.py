"""Window functions beside aggregates in one SELECT, as in `sum(sum(x)) OVER (PARTITION BY k)`: they are computed over all groups.

The SELECT is split. What is grouped gives the expressions of GROUP BY and the aggregates; the list of the SELECT, in which these have
names, is SQL over the groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from clash.sql.query_source import QuerySource, Span

_GROUPINGS = ("grouping", "grouping_id")


class _UnsplitError(Exception):
    """The list names something that is neither grouped by nor aggregated."""


@dataclass(slots=True)
class WindowItems:
    """What a SELECT with window functions needs of its groups."""

    source: QuerySource
    group: list[exp.Expr]
    outputs: dict[str, exp.Expr] = field(default_factory=dict)
    """By name, the expressions of GROUP BY and the aggregates."""
    names: dict[Span, str] = field(default_factory=dict)
    """Where they stand in the SELECT list."""

    def _add(self, node: exp.Expr, expression: exp.Expr) -> None:
        """`node` stands for `expression`."""
        key = _text(expression)
        name = next((name for name, other in self.outputs.items() if _text(other) == key), f"_{len(self.outputs)}")
        self.outputs.setdefault(name, expression)
        self.names[self.source.span(node)] = name

    def visit(self, node: exp.Expr, is_windowed: bool = False) -> None:
        """Collects from one item; `is_windowed`: the node is the function before OVER, which is not an aggregate of a group."""
        grouped = next((other for other in self.group if _is_same(node, other)), None)
        function = node.name if isinstance(node, exp.Anonymous) else node.sql_name() if isinstance(node, exp.Func) else ""
        is_grouping = function.lower() in _GROUPINGS
        if grouped is not None:
            self._add(node, grouped)
        elif (isinstance(node, exp.AggFunc) or is_grouping) and not is_windowed:
            if node.find(exp.Window) is not None:
                raise _UnsplitError
            self._add(node, node)
        elif isinstance(node, exp.Column | exp.Query | exp.Star) and not is_windowed:
            raise _UnsplitError
        else:
            for value in node.args.values():
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, exp.Expr) and not isinstance(child, exp.Identifier):
                        self.visit(child, isinstance(node, exp.Window) and child is node.this)


def split_window_items(source: QuerySource, select: exp.Select) -> WindowItems | None:
    """None for a SELECT without window functions, or one whose list cannot be split."""
    clause = select.args.get("group")
    if clause is None or select.args.get("distinct") or not any(item.find(exp.Window) for item in select.expressions):
        return None
    group = [node for part in clause.expressions for node in _grouped(part)]
    if clause.args.get("all") or any(isinstance(node, exp.Literal) for node in group):
        return None
    items = WindowItems(source, group)
    try:
        for item in select.expressions:
            items.visit(item.this if isinstance(item, exp.Alias) else item)
    except _UnsplitError:
        return None
    return items


def _grouped(part: exp.Expr) -> list[exp.Expr]:
    """The expressions of one part of GROUP BY; ROLLUP, CUBE and GROUPING SETS have several."""
    if isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
        return [node for each in part.expressions for node in _grouped(each)]
    return _grouped(part.this) if isinstance(part, exp.Paren) else [part]


def _text(node: exp.Expr) -> str:
    return node.sql("spark").lower()


def _is_same(node: exp.Expr, grouped: exp.Expr) -> bool:
    """Whether a node is an expression of GROUP BY; a column may be qualified in one place and not in the other."""
    if isinstance(node, exp.Column) and isinstance(grouped, exp.Column):
        tables = {node.table.lower(), grouped.table.lower()} - {""}
        return node.name.lower() == grouped.name.lower() and len(tables) < 2
    return type(node) is type(grouped) and _text(node) == _text(grouped)
