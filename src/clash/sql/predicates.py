"""Conjuncts to equivalence classes, filters on one alias and residuals between several.

`=` between plain columns joins. Equality is transitive between exactly comparable types only: such pairs are closed to
classes, any other pair is a class of its own two members.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from clash.model.expressions import Call, Col, Expr, Lit, relations
from clash.model.query import EqualityClass
from clash.model.relation import Attribute, Relation
from clash.model.types import exact
from clash.sql.convert import convert, flatten
from clash.sql.joins import Tables
from clash.sql.normal_form import conjuncts, normalise
from clash.sql.scope import Scope
from clash.sql.short_form import looks_short
from clash.sql.query_source import Source, Span


@dataclass(frozen=True, slots=True)
class Predicates:
    classes: frozenset[EqualityClass]
    filters: frozenset[Expr]
    residuals: frozenset[Expr]
    links: frozenset[frozenset[Relation]]


def read_predicates(source: Source, where: exp.Expression | None, tables: Tables) -> Predicates:
    found: dict[Expr, Span | None] = {}
    for condition, scope in (*tables.conditions, *(((where, tables.scope),) if where is not None else ())):
        for node in flatten(condition, exp.And):
            expr = convert(node, scope, source)
            _refuse_no_boolean(source, node, expr)
            for part in conjuncts([normalise(expr)]):
                _refuse_constant(source, node, part)
                found.setdefault(part, source.span(node) if len(relations(part)) > 1 else None)
    found.pop(Lit(True, "boolean"), None)
    pairs = list(tables.equal)
    rest: list[Expr] = []
    for expr in found:
        link = _as_pair(expr)
        if link is None:
            rest.append(expr)
        elif link[0] == link[1]:
            rest.append(Call("isnotnull", (tables.scope.col(link[0]),), "boolean"))  # x = x says no more
        else:
            pairs.append(link)
    classes = _close(pairs, tables.scope)
    within = {c for c in classes if len({a.relation for a in c}) == 1}
    for group in within:
        first, *others = sorted(group)
        rest += [normalise(Call("=", (tables.scope.col(first), tables.scope.col(other)), "boolean")) for other in others]
    rest = conjuncts(rest) if rest else []
    classes -= within
    _refuse_disconnected(source, tables, classes, {e: found.get(e) for e in rest})
    groups = _components([a.relation for a in tables.scope.aliases], [{a.relation for a in c} for c in classes])
    return Predicates(
        frozenset(classes),
        frozenset(e for e in rest if len(relations(e)) == 1),
        frozenset(e for e in rest if len(relations(e)) > 1),
        frozenset(frozenset((a, b)) for g in groups for h in groups if g is not h for a in g for b in h),
    )


def _refuse_no_boolean(source: Source, node: exp.Expression, expr: Expr) -> None:
    if expr.type not in ("boolean", "unknown", "void"):
        raise source.error(node, "a condition is not a boolean", "write a comparison", f"it is {expr.type}")


def _refuse_constant(source: Source, node: exp.Expression, part: Expr) -> None:
    """TRUE goes away; what is never true, or cannot be told yet, is a mistake."""
    if isinstance(part, Lit) and part.value is not True:
        raise source.error(node, "the condition is never true", "remove it, or the whole query")
    if not relations(part) and not isinstance(part, Lit):
        raise source.error(node, "the condition names no column", "remove it")


def _as_pair(expr: Expr) -> tuple[Attribute, Attribute] | None:
    if not isinstance(expr, Call) or expr.op != "=":
        return None
    left, right = expr.args
    if not isinstance(left, Col) or not isinstance(right, Col):
        return None
    return Attribute(left.relation, left.column), Attribute(right.relation, right.column)


def _close(pairs: list[tuple[Attribute, Attribute]], scope: Scope) -> set[EqualityClass]:
    held: dict[Attribute, set[Attribute]] = {}
    loose: set[EqualityClass] = set()
    for a, b in sorted((min(p), max(p)) for p in pairs):
        union = held.get(a, {a}) | held.get(b, {b})
        kinds = {scope.col(attribute).type for attribute in union}
        if all(exact(x, y) for x in kinds for y in kinds):
            held.update(dict.fromkeys(union, union))
        else:
            loose.add(frozenset((a, b)))
    return {frozenset(group) for group in held.values()} | loose


def _components(all_relations: list[Relation], edges: list[set[Relation]]) -> list[set[Relation]]:
    groups = [{relation} for relation in all_relations]
    for edge in edges:
        touched = [g for g in groups if g & edge]
        if touched:
            groups = [g for g in groups if not g & edge] + [set().union(*touched)]
    return groups


def _refuse_disconnected(source: Source, tables: Tables, classes: set[EqualityClass], rest: dict[Expr, Span | None]) -> None:
    aliases = tables.scope.aliases
    edges = [{a.relation for a in c} for c in classes] + [set(pair) for pair in tables.crossed]
    groups = _components([a.relation for a in aliases], edges)
    if len(groups) == 1:
        return
    across = [(e, span) for e, span in rest.items() if span and not any(relations(e) <= g for g in groups)]
    for expr, span in across:
        if isinstance(expr, Call) and expr.op == "or" and span:
            hint = "add an equality that always holds, or make one query of each branch of the OR"
            raise source.error(span, "OR is the only link between its aliases", hint)
    groups.sort(key=lambda g: min(at for at, a in enumerate(aliases) if a.relation in g))
    note = "no equality between " + " and ".join(f"{{{', '.join(a.name for a in aliases if a.relation in g)}}}" for g in groups)
    hint = "add an equality such as R.a = S.a, or write CROSS JOIN if every pair is meant"
    if looks_short(source):
        hint = "give the relations a common attribute"
    elif any(isinstance(e, Call) and e.op == "<=>" for e, _ in across):
        hint = "<=> does not join; write = (NULLs match nothing then)"
    for _, span in across:
        if span:
            raise source.error(span, "not all relations are joined by an equality", hint, note)
    start, end = source.token_span("FROM")[0], source.token_span("WHERE")[0]
    raise source.error((start, end if end > start else len(source.text)), "not all relations are joined by an equality", hint, note)
