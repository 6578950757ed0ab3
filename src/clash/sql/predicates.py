"""Pass: all conditions to equality classes, filters on one alias and residuals between several.

`=` between plain columns joins. Equality is transitive between exactly comparable types only: pairs of such types are closed into classes,
any other pair is a class of its own two members.
"""

from __future__ import annotations

from sqlglot import exp

from clash.errors import QueryError
from clash.model.coercion import VOID, common
from clash.model.expressions import Call, Col, Expr, Lit, relations
from clash.model.projection import is_by_spark
from clash.model.query import EqualityClass
from clash.model.relation import Attribute, Relation
from clash.model.types import UNKNOWN, exact, family
from clash.sql.convert import convert_expression, flatten
from clash.sql.draft import Predicates, QueryDraft
from clash.sql.key_columns import Equality, key_pair
from clash.sql.normal_form import TRUE, conjuncts, normalise
from clash.sql.query_source import QuerySource, Span
from clash.sql.scope import Scope


class NeverTrueError(QueryError):
    """A condition is false for all rows. A branch of UNION ALL has none then."""


def classify_predicates(draft: QueryDraft) -> None:
    """Sets `predicates`."""
    scope = draft.scope
    spans, equalities = _read_conjuncts(draft)
    pairs, others = _split_pairs(draft, list(spans))
    error = _disconnected(draft, _close_equalities(pairs, scope), {expr: spans.get(expr) for expr in others})
    if error is not None:
        pairs, others = _join_on_expressions(draft, pairs, others, equalities, error)
    classes = _close_equalities(pairs, scope)
    # A class within one relation joins nothing: it is a filter.
    within = {group for group in classes if len({attribute.relation for attribute in group}) == 1}
    for group in within:
        first, *rest = sorted(group)
        others += [normalise(Call("=", (scope.col(first), scope.col(other)), "boolean")) for other in rest]
    others = conjuncts(others) if others else []
    classes -= within
    error = _disconnected(draft, classes, {expr: spans.get(expr) for expr in others})
    if error is not None:
        raise error
    by_spark = [expr for expr in spans if expr in others and is_by_spark(expr)]
    others = [expr for expr in others if not is_by_spark(expr)]
    joined = _components([alias.relation for alias in scope.aliases], [{a.relation for a in group} for group in classes])
    draft.predicates = Predicates(
        frozenset(classes),
        frozenset(expr for expr in others if len(relations(expr)) == 1),
        frozenset(expr for expr in others if len(relations(expr)) > 1),
        frozenset(frozenset((a, b)) for g in joined for h in joined if g is not h for a in g for b in h),
        tuple(by_spark),
    )


def _join_on_expressions(
    draft: QueryDraft, pairs: list[tuple[Attribute, Attribute]], others: list[Expr], equalities: list[Equality], error: QueryError
) -> tuple[list[tuple[Attribute, Attribute]], list[Expr]]:
    """The same, with keys of equalities between expressions where they are the only link between relations. `error`: that there is no
    other."""
    scope = draft.scope
    links = [{a.relation for a in group} for group in _close_equalities(pairs, scope)] + [set(p) for p in draft.from_clause.cross_joins]
    groups = _components([alias.relation for alias in scope.aliases], links)
    for equality in equalities if len(groups) > 1 else ():
        if any(relations(equality.conjunct) <= group for group in groups):
            continue
        pair = key_pair(equality, draft.source, error)
        if pair is not None:
            pairs = [*pairs, pair]
            groups = _components([alias.relation for alias in scope.aliases], [*groups, {pair[0].relation, pair[1].relation}])
            if not equality.is_null_safe:  # otherwise the key is only equal where the values are
                others = [other for other in others if other != equality.conjunct]
    return pairs, others


def _read_conjuncts(draft: QueryDraft) -> tuple[dict[Expr, Span | None], list[Equality]]:
    """The conjuncts of ON, USING and WHERE in normal form, without repeats; those between relations with their place in the text. Those of
    them that are equalities in the text."""
    source, clause = draft.source, draft.from_clause
    where = draft.syntax.args.get("where") if isinstance(draft.syntax, exp.Select) else None
    spans: dict[Expr, Span | None] = {}
    equalities: list[Equality] = []
    for left, right, span in clause.equalities:
        conjunct = normalise(Call("=", (left, right), "boolean"))
        _refuse_constant(source, span, conjunct)
        spans.setdefault(conjunct, span if len(relations(conjunct)) > 1 else None)
        equalities.append(Equality(conjunct, (left, right), None, False, span, clause.scope))
    for condition, scope in (*clause.conditions, *(((where.this, clause.scope),) if where else ())):
        for node in flatten(condition, exp.And):
            expr = convert_expression(node, scope, source)
            _refuse_non_boolean(source, node, expr)
            found = conjuncts([normalise(expr)])
            equality = node.unnest()
            if len(found) == 1 and len(relations(found[0])) == 2 and isinstance(equality, exp.EQ | exp.NullSafeEQ):
                sides = _sides(equality, expr, scope, source)
                nodes = equality.this.unnest(), equality.expression.unnest()
                equalities.append(Equality(found[0], sides, nodes, isinstance(equality, exp.NullSafeEQ), source.span(node), scope))
            for conjunct in found:
                _refuse_constant(source, node, conjunct)
                spans.setdefault(conjunct, source.span(node) if len(relations(conjunct)) > 1 else None)
    spans.pop(TRUE, None)
    return spans, equalities


def _sides(node: exp.Expression, expr: Expr, scope: Scope, source: QuerySource) -> tuple[Expr, Expr]:
    """The sides of an equality, as they are compared."""
    if isinstance(expr, Call) and expr.op in ("=", "<=>"):
        return expr.args[0], expr.args[1]
    left, right = (convert_expression(side, scope, source) for side in (node.this, node.expression))
    return left, right


def _split_pairs(draft: QueryDraft, exprs: list[Expr]) -> tuple[list[tuple[Attribute, Attribute]], list[Expr]]:
    """The equalities between columns, and all other predicates."""
    pairs: list[tuple[Attribute, Attribute]] = []
    others: list[Expr] = []
    for expr in exprs:
        pair = _as_pair(expr)
        if pair is None:
            others.append(expr)
        elif pair[0] == pair[1]:
            others.append(Call("isnotnull", (draft.scope.col(pair[0]),), "boolean"))  # `x = x` is true iff x is not NULL
        else:
            pairs.append(pair)
    return pairs, others


def _as_pair(expr: Expr) -> tuple[Attribute, Attribute] | None:
    """Both sides of an equality between plain columns; None for any other expression."""
    if not isinstance(expr, Call) or expr.op != "=":
        return None
    left, right = map(_without_widening, expr.args)
    if not isinstance(left, Col) or not isinstance(right, Col):
        return None
    return Attribute(left.relation, left.column), Attribute(right.relation, right.column)


def _without_widening(expr: Expr) -> Expr:
    """The column of a cast to a wider integer, as UNION ALL makes them: it is equal to the same values."""
    if isinstance(expr, Call) and expr.op == "cast" and family(expr.type) == "integer" and family(expr.args[0].type) == "integer":
        return expr.args[0] if common(expr.type, expr.args[0].type) == expr.type else expr
    return expr


def _close_equalities(pairs: list[tuple[Attribute, Attribute]], scope: Scope) -> set[EqualityClass]:
    """The classes of the pairs under transitivity. A pair that would mix types which are not exactly comparable is a class of its own."""
    class_of: dict[Attribute, set[Attribute]] = {}
    inexact: set[EqualityClass] = set()
    for a, b in sorted((min(pair), max(pair)) for pair in pairs):
        union = class_of.get(a, {a}) | class_of.get(b, {b})
        types = {scope.col(attribute).type for attribute in union}
        if all(exact(x, y) for x in types for y in types):
            class_of.update(dict.fromkeys(union, union))
        else:
            inexact.add(frozenset((a, b)))
    return {frozenset(group) for group in class_of.values()} | inexact


def _components(nodes: list[Relation], edges: list[set[Relation]]) -> list[set[Relation]]:
    """The connected components of a hypergraph."""
    groups = [{node} for node in nodes]
    for edge in edges:
        touched = [group for group in groups if group & edge]
        if touched:
            groups = [group for group in groups if not group & edge] + [set().union(*touched)]
    return groups


def _refuse_non_boolean(source: QuerySource, node: exp.Expression, expr: Expr) -> None:
    if expr.type not in ("boolean", UNKNOWN, VOID):
        raise source.error(node, "a condition is not a boolean", "write a comparison", f"it is {expr.type}")


def _refuse_constant(source: QuerySource, node: exp.Expression | Span, conjunct: Expr) -> None:
    """TRUE is dropped later. A condition that is never true, or whose constant value is not known yet, is a mistake."""
    if isinstance(conjunct, Lit) and conjunct.value is not True:
        error = source.error(node, "the condition is never true", "remove it, or the whole query")
        raise NeverTrueError(error.what, error.detail, error.hint)
    if not relations(conjunct) and not isinstance(conjunct, Lit):
        raise source.error(node, "the condition names no column", "remove it")


def _disconnected(draft: QueryDraft, classes: set[EqualityClass], others: dict[Expr, Span | None]) -> QueryError | None:
    """Equalities and CROSS JOIN must connect all relations; the error points at a predicate that seems meant to connect them."""
    source, aliases = draft.source, draft.scope.aliases
    edges = [{a.relation for a in group} for group in classes] + [set(pair) for pair in draft.from_clause.cross_joins]
    groups = _components([alias.relation for alias in aliases], edges)
    if len(groups) == 1:
        return None
    across = [(expr, span) for expr, span in others.items() if span and not any(relations(expr) <= group for group in groups)]
    for expr, span in across:
        if isinstance(expr, Call) and expr.op == "or":
            hint = "add an equality that always holds, or make one query of each branch of the OR"
            return source.error(span, "OR is the only link between its aliases", hint)
    groups.sort(key=lambda group: min(at for at, alias in enumerate(aliases) if alias.relation in group))
    note = "no equality between " + " and ".join(f"{{{', '.join(a.name for a in aliases if a.relation in group)}}}" for group in groups)
    hint = "add an equality such as R.a = S.a, or write CROSS JOIN if every pair is meant"
    if isinstance(draft.syntax, tuple):
        hint = "give the relations a common attribute"
    elif any(isinstance(expr, Call) and expr.op == "<=>" for expr, _ in across):
        hint = "<=> does not join; write = (NULLs match nothing then)"
    if across:
        return source.error(across[0][1], "not all relations are joined by an equality", hint, note)
    start, end = 0, 0
    if isinstance(draft.syntax, exp.Select):
        start, end = source.clause_span(draft.syntax, "FROM")[0], source.clause_span(draft.syntax, "WHERE")[0]
    return source.error((start, end if end > start else len(source.text)), "not all relations are joined by an equality", hint, note)
