"""Pass: the FROM clause, or a short form, to uses of streams, columns, merged columns of USING and NATURAL, and pairs of CROSS JOIN.

Derived tables, common tables and joins in parentheses become part of the one join: their streams are added to those of the query, their
conditions to its conditions, and their columns are names for expressions. A common table that is used twice is joined twice.

A comma binds as JOIN does, as in Spark and unlike in the SQL standard: the left side of a JOIN is everything before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from clash.hints import did_you_mean, listed
from clash.model.block_columns import MAX_NUMBERS
from clash.model.coercion import VOID, common
from clash.model.expressions import Col, Expr
from clash.model.projection import cast_by_spark, is_by_spark
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.model.types import UNKNOWN, joinable
from clash.sql.draft import BranchChoices, FromClause, QueryDraft
from clash.sql.implicit_casts import cast_expression, with_type_of_null
from clash.sql.join_words import join_words, refuse_kind
from clash.sql.name_lookup import look_up
from clash.sql.outputs import select_items
from clash.sql.query_source import QuerySource, Span
from clash.sql.scope import Alias, Scope, ScopeColumn, as_column
from clash.sql.short_form import ShortRelation
from clash.sql.tables import CommonTable, CommonTables, common_tables, read_table, table_name, union_branches

_Merge = tuple[ScopeColumn, ScopeColumn]  # the columns of the left and of the right side that USING makes one


def resolve_from_clause(draft: QueryDraft) -> None:
    """Sets `from_clause`."""
    draft.choices.taken.clear()
    tables = _Tables(draft.source, draft.streams, draft.declared, draft.joined_types, draft.choices)
    scope = tables.short_form(draft.syntax) if isinstance(draft.syntax, tuple) else tables.select(draft.syntax, {}, "")
    scope = replace(scope, aliases=tuple(tables.aliases))
    draft.from_clause = FromClause(scope, tuple(tables.equalities), tuple(tables.conditions), frozenset(tables.cross_joins))


@dataclass(slots=True)
class _Tables:
    """Resolves the tables of one query, and collects what they consist of."""

    source: QuerySource
    streams: Mapping[str, Stream]
    declared: bool
    joined_types: Mapping[str, str]
    choices: BranchChoices = field(default_factory=BranchChoices)
    aliases: list[Alias] = field(default_factory=list)
    """The uses of streams so far; those of one stream are numbered in the order of the text."""
    equalities: list[tuple[Expr, Expr, Span]] = field(default_factory=list)
    conditions: list[tuple[exp.Expression, Scope]] = field(default_factory=list)
    cross_joins: set[frozenset[Relation]] = field(default_factory=set)

    def select(self, select: exp.Select, outer: CommonTables, path: str) -> Scope:
        """The scope of a SELECT, after its FROM clause. `path` is what the names of its streams begin with."""
        known = self._common_tables(select, outer)
        return self._joined(select.args["from_"].this, select.args.get("joins") or [], known, path)

    def _common_tables(self, query: exp.Query, outer: CommonTables) -> CommonTables:
        known = common_tables(self.source, query, outer)
        for table in known.values():
            if table.within is query:  # also one that is not used must be valid
                self._trial().columns_of(table, "")
        return known

    def _trial(self) -> _Tables:
        """Resolves something of which only the columns, or errors, matter."""
        return _Tables(self.source, self.streams, self.declared, self.joined_types)

    def columns_of(self, table: CommonTable, path: str) -> tuple[ScopeColumn, ...]:
        """The columns of one use of a common table."""
        return self._renamed(self._derived(table.query, table.known, path), "", table.columns, table.node)

    def _derived(self, select: exp.Select | exp.Union, outer: CommonTables, path: str) -> tuple[ScopeColumn, ...]:
        """The columns of a SELECT inside of the query, whose tables and conditions become those of the query."""
        if isinstance(select, exp.Union):
            return self._union(select, outer, path)
        scope = self.select(select, outer, path)
        where = select.args.get("where")
        if where is not None:
            self.conditions.append((where.this, scope))
        items = select_items(self.source, select, scope)
        return tuple(ScopeColumn(item.name, "", as_column(item.expression), item.named) for item in items)

    def _union(self, union: exp.Union, outer: CommonTables, path: str) -> tuple[ScopeColumn, ...]:
        """The columns of the branch of UNION ALL that is taken, under the names of the first and in the types of all of them."""
        known = self._common_tables(union, outer)
        branches = union_branches(union)
        columns = [self._trial()._derived(branch, known, path) for branch in branches]
        for branch, found in zip(branches, columns, strict=True):
            if len(found) != len(columns[0]):
                note = f"{len(found)} here, {len(columns[0])} in the first"
                raise self.source.error(
                    branch, "the branches of UNION ALL differ in their number of columns", "list the same columns", note
                )
        types = [self._union_type(branches, [found[at] for found in columns]) for at in range(len(columns[0]))]
        taken = self._derived(branches[self.choices.take(len(branches))], known, path)
        converted = zip(columns[0], taken, types, strict=True)
        return tuple(ScopeColumn(first.name, "", _in_type(column.expression, kind), first.named) for first, column, kind in converted)

    def _union_type(self, branches: list[exp.Select | exp.Union], columns: list[ScopeColumn]) -> str:
        """The one type of a column of all branches."""
        shared = VOID
        for branch, column in zip(branches, columns, strict=True):
            wider = common(shared, column.expression.type)
            if wider is None:
                note = f"{column.name} is {column.expression.type}, {columns[0].name} in the first is {columns[0].expression.type}"
                raise self.source.error(branch, "the branches of UNION ALL differ in a type", "write CAST(… AS type) in one of them", note)
            shared = wider
        return shared

    def _joined(self, first: exp.Expression, joins: list[exp.Join], known: CommonTables, path: str) -> Scope:
        """Joins from left to right; `left` is the scope of everything before the current JOIN."""
        for node in (first, *(join.this for join in joins)):
            if node.args.get("joins") and node.args["joins"] is not joins:
                raise self.source.error(node, "nested joins are not supported", "write each ON directly behind its JOIN, or parentheses")
        start = len(self.aliases)
        left = self._table(first, known, path)
        for at, join in enumerate(joins):
            words, span = join_words(self.source, join.this)
            refuse_kind(self.source, join, words, span)
            before = len(self.aliases)
            right = self._table(join.this, known, path)
            if "CROSS" in words:
                pairs = ((a.relation, b.relation) for a in self.aliases[start:before] for b in self.aliases[before:])
                self.cross_joins |= {frozenset(pair) for pair in pairs}
            names = [(identifier.name, self.source.span(identifier)) for identifier in join.args.get("using") or []]
            if "NATURAL" in words:
                names = self._common_columns(left, right, span)
            merges = [self._merge(left, right, name, name_span) for name, name_span in names]
            left = _merged(left, right, merges)
            if join.args.get("on") is not None:
                later = tuple(filter(None, (table_name(other.this) for other in joins[at + 1 :])))
                self.conditions.append((join.args["on"], replace(left, later=later)))
        return left

    def _table(self, node: exp.Expression, known: CommonTables, path: str) -> Scope:
        """The scope of one table of a FROM clause alone: a stream, a common table, a derived table, or joins in parentheses."""
        alias = node.args.get("alias")
        names = [identifier.name for identifier in alias.args.get("columns") or []] if alias is not None else []
        if isinstance(node, exp.Subquery):
            name = self.source.checked_label("an alias", alias.name, node) if alias is not None and alias.name else ""
            inner_path = f"{path}{name}." if name else path
            inner = node.this
            if isinstance(inner, exp.Select | exp.Union):
                columns = self._derived(inner, known, inner_path)
            else:
                scope = self._joined(inner, inner.args.get("joins") or [], known, inner_path)
                if not name:
                    return scope
                columns = scope.visible
        else:
            stream, name = read_table(self.source, node)
            table = known.get(stream.lower())
            columns = self.columns_of(table, f"{path}{name}.") if table is not None else self._stream(stream, f"{path}{name}", node)
        visible = self._renamed(columns, name, names, node)
        return Scope(tuple(self.aliases), visible, self.declared, (name,), joined_types=self.joined_types)

    def _stream(self, name: str, alias: str, where: exp.Expression | Span) -> tuple[ScopeColumn, ...]:
        """The columns of one use of a stream."""
        stream = look_up(name, self.streams)
        if stream is None:
            others = f"streams are {listed(self.streams)}" if self.streams else "no stream is declared"
            raise self.source.error(where, "unknown stream", did_you_mean(name, self.streams, others))
        number = sum(a.stream.name == stream for a in self.aliases)
        if number == MAX_NUMBERS:
            raise self.source.error(where, "a stream has too many aliases", f"one query may name a stream {MAX_NUMBERS} times")
        added = Alias(alias, Relation(stream, number), self.streams[stream])
        self.aliases.append(added)
        return tuple(ScopeColumn(column, "", added.col(column)) for column, _ in added.stream.columns)

    def _renamed(self, columns: tuple[ScopeColumn, ...], table: str, names: list[str], where: exp.Expression) -> tuple[ScopeColumn, ...]:
        """The columns under the name of their table, and under the names of a list such as `t(a, b)`, if there is one."""
        if names and len(names) != len(columns):
            note = f"{len(names)} names, {len(columns)} columns"
            raise self.source.error(where, "an alias does not name all columns", "list one name for each column", note)
        if names:
            return tuple(ScopeColumn(name, table, column.expression) for name, column in zip(names, columns, strict=True))
        return tuple(replace(column, table=table) for column in columns)

    def _common_columns(self, left: Scope, right: Scope, span: Span) -> list[tuple[str, Span]]:
        """The columns that NATURAL joins on, in the order of the left side."""
        unnamed = [column.name for column in (*left.visible, *right.visible) if not column.named]
        if unnamed:
            raise self.source.error(span, "NATURAL JOIN needs names for all columns", "name it inside, with AS", unnamed[0])
        on_the_right = {column.name.lower() for column in right.visible}
        names = list(dict.fromkeys(column.name for column in left.visible if column.name.lower() in on_the_right))
        if not names:
            hint = "write JOIN … ON …"
            if not self.declared:
                hint = f"no streams are declared, so only columns that queries name are known; {hint}"
            raise self.source.error(span, "NATURAL JOIN finds no common column", hint)
        for name in names:
            for column in (*left.visible, *right.visible):
                if column.name.lower() == name.lower() and self._is_time(column.expression):
                    hint = f"write JOIN {right.tables[0]} USING ({listed(n for n in names if n != name) or '…'})"
                    raise self.source.error(span, "NATURAL JOIN would join time columns", hint, f"{column.table}.{column.name}")
        return [(name, span) for name in names]

    def _is_time(self, expr: Expr) -> bool:
        return isinstance(expr, Col) and self.streams[expr.relation.stream].time == expr.column

    def _merge(self, left: Scope, right: Scope, name: str, span: Span) -> _Merge:
        """What USING (name) makes equal: the visible columns of this name on the left and on the right."""
        other = right.resolve_visible(self.source, name, span)
        column = left.resolve_visible(self.source, name, span)
        self._equate(column, other, span)
        return column, other

    def _equate(self, left: ScopeColumn, right: ScopeColumn, span: Span) -> None:
        a, b = left.expression, right.expression
        if not joinable(a.type, b.type):
            note = f"{left.table}.{left.name} is {a.type}, {right.table}.{right.name} is {b.type}"
            raise self.source.error(span, "columns of these types cannot be joined", "give both streams the same atomic type", note)
        self.equalities.append((a, b, span))

    def short_form(self, relations: tuple[ShortRelation, ...]) -> Scope:
        """Equal attribute names are merged. A stream that is named again gets the alias `R_2`."""
        count: dict[str, int] = {}
        visible: dict[str, ScopeColumn] = {}
        for relation in relations:
            count[relation.stream.lower()] = number = count.get(relation.stream.lower(), 0) + 1
            self._stream(relation.stream, relation.stream if number == 1 else f"{relation.stream}_{number}", relation.span)
        for alias, relation in zip(self.aliases, relations, strict=True):
            for name, span in relation.columns:
                column = alias.find_column(name)
                if column is None:
                    raise alias.unknown_column(self.source, name, span)
                added = ScopeColumn(column, alias.name, alias.col(column))
                if visible.setdefault(name.lower(), added) is not added:
                    self._equate(visible[name.lower()], added, span)
        return Scope(tuple(self.aliases), tuple(visible.values()), self.declared, tuple(alias.name for alias in self.aliases))


def _in_type(expression: Expr, kind: str) -> Expr:
    expression = with_type_of_null(expression, kind)
    if is_by_spark(expression):
        return cast_by_spark(expression, kind)
    return expression if UNKNOWN in (kind, expression.type) else as_column(cast_expression(expression, kind))


def _merged(left: Scope, right: Scope, merges: list[_Merge]) -> Scope:
    """The scope after a join, in Spark's order: merged columns first, then the rest of the left and of the right side."""
    kept, dropped = [column for column, _ in merges], [column for _, column in merges]
    rest = (*(c for c in left.visible if c not in kept), *(c for c in right.visible if c not in dropped))
    hidden = (*dropped, *left.hidden, *right.hidden)
    return replace(right, visible=(*kept, *rest), tables=(*left.tables, *right.tables), hidden=hidden)
