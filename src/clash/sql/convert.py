"""sqlglot's expressions to those of the model: names resolved, types inferred, restricted to what `functions` lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from clash.hints import did_you_mean, listed
from clash.model.coercion import TIMES, VOID, castable
from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.types import UNKNOWN, is_atomic, is_numeric, joinable, normalise
from clash.sql import literals
from clash.sql.functions import NAMES, MismatchError, typed
from clash.sql.query_source import QuerySource
from clash.sql.scope import Scope

_MAX_DEPTH = 60  # keeps this and every later recursion over expressions far from Python's limit
_BINARY: dict[type[exp.Expression], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%",
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>", exp.DPipe: "concat",
}  # fmt: skip
_COMPARISONS = {"=", "<>", "<", "<=", ">", ">=", "<=>"}
_CONNECTIVES: dict[type[exp.Expression], str] = {exp.And: "and", exp.Or: "or"}
# operator of the model, and the keys of its arguments in sqlglot, in order; a key of a list stands for all its elements
_CALLS: dict[type[exp.Expression], tuple[str, tuple[str, ...]]] = {
    exp.Neg: ("neg", ("this",)), exp.Not: ("not", ("this",)),
    exp.Abs: ("abs", ("this",)), exp.Round: ("round", ("this", "decimals")), exp.Floor: ("floor", ("this",)), exp.Ceil: ("ceil", ("this",)),
    exp.Lower: ("lower", ("this",)), exp.Upper: ("upper", ("this",)), exp.Length: ("length", ("this",)), exp.Trim: ("trim", ("this",)),
    exp.Substring: ("substring", ("this", "start", "length")), exp.Concat: ("concat", ("expressions",)),
    exp.Coalesce: ("coalesce", ("this", "expressions")),
    exp.Greatest: ("greatest", ("this", "expressions")), exp.Least: ("least", ("this", "expressions")),
    exp.Year: ("year", ("this",)), exp.Month: ("month", ("this",)), exp.Day: ("day", ("this",)), exp.DayOfMonth: ("day", ("this",)),
    exp.Hour: ("hour", ("this",)), exp.Minute: ("minute", ("this",)), exp.Second: ("second", ("this",)),
}  # fmt: skip
# arguments of sqlglot nodes that do not change the meaning, or that are handled for all nodes alike
_IGNORED_ARGS = {
    "safe",
    "coalesce",
    "ignore_nulls",
    "typed",
    "nested",
    "is_string",
    "quoted",
    "big_int",
    "requires_string",
    "_type",
    "negate",
}
_TYPES = {
    "TINYINT": "tinyint", "SMALLINT": "smallint", "INT": "int", "BIGINT": "bigint", "FLOAT": "float", "DOUBLE": "double",
    "TEXT": "string", "VARCHAR": "string", "BOOLEAN": "boolean", "BINARY": "binary", "DATE": "date",
    "TIMESTAMP": "timestamp", "TIMESTAMPTZ": "timestamp", "TIMESTAMPLTZ": "timestamp", "TIMESTAMPNTZ": "timestamp_ntz",
}  # fmt: skip


def convert_expression(node: exp.Expression, scope: Scope, source: QuerySource) -> Expr:
    """The typed expression, not yet in normal form."""
    return _Converter(scope, source).expr(node, 0)


@dataclass(frozen=True, slots=True)
class _Converter:
    scope: Scope
    source: QuerySource

    def expr(self, node: exp.Expression, depth: int) -> Expr:
        """Any expression; errors of types get their place in the text here, at the innermost node."""
        if depth > _MAX_DEPTH:
            raise self.source.error(node, "the expression is nested too deeply", f"{_MAX_DEPTH} levels at most; AND and OR may be longer")
        try:
            result = self._dispatch(node, depth + 1)
        except MismatchError as error:
            raise self.source.error(node, error.what, error.hint, error.note) from None
        return typed("not", (result,)) if node.args.get("negate") else result

    def _dispatch(self, node: exp.Expression, depth: int) -> Expr:
        kind = type(node)
        if kind in _CONNECTIVES:
            return typed(_CONNECTIVES[kind], tuple(self.boolean(part, depth) for part in flatten(node, kind)))
        if kind in _BINARY:
            left, right = self.expr(node.this, depth), self.expr(node.expression, depth)
            return self._compare(node, _BINARY[kind], left, right) if _BINARY[kind] in _COMPARISONS else typed(_BINARY[kind], (left, right))
        if kind in _CALLS:
            return self._call(node, depth)
        special = _SPECIAL.get(kind)
        if special is None:
            raise self._unsupported(node)
        return special(self, node, depth)

    def boolean(self, node: exp.Expression, depth: int) -> Expr:
        """An expression that must be a condition."""
        result = self.expr(node, depth)
        if result.type not in ("boolean", UNKNOWN, VOID):
            raise self.source.error(node, "a condition is not a boolean", "write a comparison", f"it is {result.type}")
        return result

    def _compare(self, node: exp.Expression, op: str, left: Expr, right: Expr) -> Expr:
        """A comparison. As in Spark, a string literal compared with a date or timestamp is one. Joins of columns have their own errors."""
        left, right = _as_time(left, right.type), _as_time(right, left.type)
        columns = isinstance(left, Col) and isinstance(right, Col) and left.relation != right.relation
        if op == "=" and columns and not joinable(left.type, right.type):
            note = f"{left.type} and {right.type}"
            if not (is_atomic(left.type) and is_atomic(right.type)):
                raise self.source.error(node, "a join on nested types is not supported", "join on a column of an atomic type", note)
            text = "string" in (left.type, right.type) and (is_numeric(left.type) or is_numeric(right.type))
            what = "a string cannot be joined to a number" if text else "columns of these types cannot be joined"
            raise self.source.error(node, what, "give both streams the same type before they are registered", note)
        return typed(op, (left, right))

    def _call(self, node: exp.Expression, depth: int) -> Expr:
        op, keys = _CALLS[type(node)]
        extra = [key for key, value in node.args.items() if value and key not in keys and key not in _IGNORED_ARGS]
        if extra:
            raise MismatchError(f"this form of {op.upper()} is not supported", "", f"write {op.upper()} with its plain arguments")
        nodes: list[exp.Expression] = []
        for key in keys:
            value = node.args.get(key)
            nodes.extend(value if isinstance(value, list) else [value] if value is not None else [])
        if isinstance(node, exp.Year | exp.Month | exp.Day | exp.DayOfMonth) and isinstance(nodes[0], exp.TsOrDsToDate):
            nodes = [nodes[0].this]  # added by sqlglot
        literal = _adjacent_strings(self.source, nodes) if op == "concat" else None
        if literal is not None:
            return Lit(literal, "string")
        args = tuple(self.expr(n, depth) for n in nodes)
        if op == "neg" and isinstance(args[0], Lit):
            negated = literals.negative(args[0])
            if negated is not None:
                return negated
        return typed(op, args)

    def case(self, node: exp.Expression, depth: int) -> Expr:
        """CASE in both forms, and IF."""
        args: list[Expr] = []
        branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        for branch in branches:
            if isinstance(node, exp.Case) and node.this is not None:
                args.append(self._compare(branch, "=", self.expr(node.this, depth), self.expr(branch.this, depth)))
            else:
                args.append(self.boolean(branch.this, depth))
            if branch.args.get("true") is None or (branch is node and node.args.get("false") is None):
                raise MismatchError("a CASE or IF lacks a value", "", "write CASE WHEN … THEN … ELSE … END, or IF(condition, value, other)")
            args.append(self.expr(branch.args["true"], depth))
        default = node.args.get("default" if isinstance(node, exp.Case) else "false")
        call = typed("case", (*args, Lit(None, VOID) if default is None else self.expr(default, depth)))
        last = len(call.args) - 1
        types = (call.type if at % 2 or at == last else "boolean" for at in range(last + 1))
        return Call("case", tuple(map(_with_type_of_null, call.args, types)), call.type)

    def nullif(self, node: exp.Expression, depth: int) -> Expr:
        left, right = self.expr(node.this, depth), self.expr(node.expression, depth)
        return Call("case", (self._compare(node, "=", left, right), Lit(None, left.type), left), left.type)

    def between(self, node: exp.Expression, depth: int) -> Expr:
        if node.args.get("symmetric"):
            raise MismatchError("BETWEEN SYMMETRIC is not supported", "", "write BETWEEN least AND greatest")
        value, low, high = (self.expr(node.args[k], depth) for k in ("this", "low", "high"))
        return typed("and", (self._compare(node, ">=", value, low), self._compare(node, "<=", value, high)))

    def distinct(self, node: exp.Expression, depth: int) -> Expr:
        """IS DISTINCT FROM."""
        return typed("not", (self._compare(node, "<=>", self.expr(node.this, depth), self.expr(node.expression, depth)),))

    def is_(self, node: exp.Expression, depth: int) -> Expr:
        value, operand = self.expr(node.this, depth), node.expression
        if isinstance(operand, exp.Null):
            return typed("isnull", (value,))
        if isinstance(operand, exp.Boolean):
            return typed("<=>", (value, Lit(bool(operand.this), "boolean")))
        raise self._unsupported(node)

    def in_(self, node: exp.Expression, depth: int) -> Expr:
        """IN as an OR of equalities, of which the normal form makes an `in` where it can."""
        choices = node.expressions
        if not choices or any(v for k, v in node.args.items() if k not in ("this", "expressions", "negate")):
            raise MismatchError("IN needs a list of values", "", "write R.a IN (1, 2, 3)")
        value = self.expr(node.this, depth)
        return typed("or", tuple(self._compare(node, "=", value, self.expr(choice, depth)) for choice in choices))

    def like(self, node: exp.Expression, depth: int) -> Expr:
        """LIKE with a literal pattern, alone or inside ESCAPE."""
        escape: tuple[Expr, ...] = ()
        if isinstance(node, exp.Escape):
            if type(node.this) is not exp.Like:
                raise self._unsupported(node.this)
            escape, node = (self.expr(node.expression, depth),), node.this
        pattern = self.expr(node.expression, depth) if isinstance(node.expression, exp.Literal | exp.RawString | exp.Concat) else None
        escape_char = escape[0].value if escape and isinstance(escape[0], Lit) else "\\"
        if not isinstance(pattern, Lit) or not isinstance(pattern.value, str) or not isinstance(escape_char, str) or len(escape_char) != 1:
            raise MismatchError("LIKE needs a literal pattern", "", "write e.g. R.name LIKE 'a%', with ESCAPE and one character if need be")
        if (len(pattern.value) - len(pattern.value.rstrip(escape_char))) % 2:
            raise MismatchError("a LIKE pattern ends in its escape character", "", "double it")
        call = typed("like", (self.expr(node.this, depth), pattern, *(e for e in escape if escape_char != "\\")))
        return typed("not", (call,)) if node.args.get("negate") and escape else call

    def cast(self, node: exp.Expression, depth: int) -> Expr:
        """CAST to an atomic type; literals are cast here where the result is certain."""
        if isinstance(node, exp.TryCast) and node.args.get("safe"):
            raise MismatchError("TRY_CAST is not supported", "", "write CAST; a value that does not fit ends the run with an error")
        to = node.args["to"]
        target = _TYPES.get(to.this.name if isinstance(to, exp.DataType) and not isinstance(to.this, exp.Expression) else "", "")
        if isinstance(to, exp.DataType) and to.is_type("decimal"):
            precision, scale = ([p.name for p in to.expressions] + ["10", "0"][len(to.expressions) :])[:2]
            target = normalise(f"decimal({precision},{scale})")
        if not target or node.args.get("format") or (target == "string" and to.expressions):
            raise MismatchError("CAST goes to atomic types only", "", "write e.g. bigint, double, decimal(10,2), string, date or timestamp")
        value = self.expr(node.this, depth)
        if value.type == target:
            return value
        folded = literals.cast_literal(value, target) if isinstance(value, Lit) else None
        if folded is not None:
            return folded
        if not castable(value.type, target):
            raise MismatchError(f"{value.type} cannot be cast to {target}", "", "go through string, if that is meant")
        return Call("cast", typed("cast", (value,)).args, target)

    def unwrapped(self, node: exp.Expression, depth: int) -> Expr:
        return self.expr(node.this, depth)

    def column(self, node: exp.Expression, depth: int) -> Expr:
        assert isinstance(node, exp.Column)
        if isinstance(node.this, exp.Star):
            raise MismatchError("* stands for columns, not for a value", "", "name the column")
        return self.scope.resolve_column(self.source, node)

    def literal(self, node: exp.Expression, depth: int) -> Expr:
        if isinstance(node, exp.Null):
            return Lit(None, VOID)
        if isinstance(node, exp.Boolean):
            return Lit(bool(node.this), "boolean")
        if isinstance(node, exp.Interval):
            return literals.interval(node)
        return Lit(node.this, "string") if node.is_string or isinstance(node, exp.RawString) else literals.number(node.this)

    def _unsupported(self, node: exp.Expression) -> Exception:
        """The error for a node without conversion, named as precisely as the text allows."""
        span = self.source.span(node)
        if isinstance(node, exp.Bracket | exp.Dot):
            return self.source.error(span, "fields inside a column are not supported", "name whole columns: alias.column")
        spelling = self.source.text[span[0] : span[1]].partition("(")[0].strip()
        if isinstance(node, exp.Func) and (spelling.isidentifier() or isinstance(node, exp.Anonymous)):
            name = (spelling if spelling.isidentifier() else node.name).upper()
            hint = did_you_mean(name, NAMES, "compute it before the stream is registered;") + f" supported are {listed(NAMES, 60)}"
            return self.source.error(span, f"the function {name} is not supported", hint)
        hint = "see docs/queries.md for what is; compute others before the stream is registered"
        what = "operator" if isinstance(node, exp.Binary | exp.Unary) else "kind of expression"
        return self.source.error(span, f"this {what} is not supported", hint)


_Handler = Callable[[_Converter, exp.Expression, int], Expr]
_SPECIAL: dict[type[exp.Expression], _Handler] = {
    exp.Case: _Converter.case, exp.If: _Converter.case, exp.Nullif: _Converter.nullif, exp.Between: _Converter.between,
    exp.NullSafeNEQ: _Converter.distinct,
    exp.Is: _Converter.is_, exp.In: _Converter.in_, exp.Like: _Converter.like, exp.Escape: _Converter.like,
    exp.Cast: _Converter.cast, exp.TryCast: _Converter.cast, exp.Paren: _Converter.unwrapped,
    exp.Column: _Converter.column, exp.Literal: _Converter.literal, exp.RawString: _Converter.literal, exp.Null: _Converter.literal,
    exp.Boolean: _Converter.literal, exp.Interval: _Converter.literal,
}  # fmt: skip


def flatten(node: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    """The parts of a chain of AND or OR in order, without recursion: such chains may be thousands long."""
    parts: list[exp.Expression] = []
    pending = [node]
    while pending:
        part = pending.pop()
        inner = part.unnest() if isinstance(part, exp.Paren) else part
        if type(inner) is kind and not inner.args.get("negate"):
            pending += [inner.expression, inner.this]
        else:
            parts.append(part)
    return parts


def _adjacent_strings(source: QuerySource, nodes: list[exp.Expression]) -> str | None:
    """The text of adjacent string literals, which sqlglot parses as a CONCAT; None if the nodes are something else.

    `'a' 'b'` is `ab`; without a space between them, `'it''s'` is one literal that contains a quote.
    """
    at = source.index_at(nodes[0].meta["start"]) if nodes and "start" in nodes[0].meta else len(source.tokens)
    tokens = source.tokens[at : at + len(nodes)]
    if len(tokens) < max(2, len(nodes)) or any(token.token_type is not TokenType.STRING for token in tokens):
        return None
    text = tokens[0].text
    for before, token in pairwise(tokens):
        text += (source.text[token.start] if before.end + 1 == token.start else "") + token.text
    return text


def _as_time(expr: Expr, other_type: str) -> Expr:
    """A string literal as a date or timestamp, if it is compared with one."""
    if isinstance(expr, Lit) and expr.type == "string" and isinstance(expr.value, str) and other_type in ("date", *TIMES):
        return literals.cast_literal(expr, other_type) or expr
    return expr


def _with_type_of_null(expr: Expr, type_: str) -> Expr:
    """A bare NULL with the type of its context; any other expression as it is."""
    return Lit(None, type_) if isinstance(expr, Lit) and expr.type == VOID else expr
