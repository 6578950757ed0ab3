"""sqlglot's expressions to the model's: names resolved, types inferred, only what `functions` lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.types import UNKNOWN, is_atomic, is_numeric, joinable, normalise
from clash.sql import literals
from clash.model.coercion import TIMES, VOID, castable
from clash.sql.functions import NAMES, MismatchError, typed
from clash.sql.name_lookup import did_you_mean, listed
from clash.sql.scope import Scope
from clash.sql.query_source import Source

_DEEPEST = 60  # keeps this and every later recursion far from Python's limit
_BINARY: dict[type[exp.Expression], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%",
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>", exp.DPipe: "concat",
}  # fmt: skip
_COMPARISONS = {"=", "<>", "<", "<=", ">", ">=", "<=>"}
_CONNECTIVES: dict[type[exp.Expression], str] = {exp.And: "and", exp.Or: "or"}
# op, and the arguments in order; a list argument gives all its elements
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
_HARMLESS = {"safe", "coalesce", "ignore_nulls", "typed", "nested", "is_string", "quoted", "big_int", "requires_string", "_type", "negate"}
_TYPES = {
    "TINYINT": "tinyint", "SMALLINT": "smallint", "INT": "int", "BIGINT": "bigint", "FLOAT": "float", "DOUBLE": "double",
    "TEXT": "string", "VARCHAR": "string", "BOOLEAN": "boolean", "BINARY": "binary", "DATE": "date",
    "TIMESTAMP": "timestamp", "TIMESTAMPTZ": "timestamp", "TIMESTAMPLTZ": "timestamp", "TIMESTAMPNTZ": "timestamp_ntz",
}  # fmt: skip


def convert(node: exp.Expression, scope: Scope, source: Source) -> Expr:
    return _Conversion(scope, source).expr(node, 0)


@dataclass(frozen=True, slots=True)
class _Conversion:
    scope: Scope
    source: Source

    def expr(self, node: exp.Expression, depth: int) -> Expr:
        if depth > _DEEPEST:
            raise self.source.error(node, "the expression is nested too deeply", f"{_DEEPEST} levels at most; AND and OR may be longer")
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
        result = self.expr(node, depth)
        if result.type not in ("boolean", UNKNOWN, VOID):
            raise self.source.error(node, "a condition is not a boolean", "write a comparison", f"it is {result.type}")
        return result

    def _compare(self, node: exp.Expression, op: str, left: Expr, right: Expr) -> Expr:
        """Text beside a date or timestamp is one, as in Spark; a join of two columns has its own words when it fails."""
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
        extra = [k for k, v in node.args.items() if v and k not in keys and k not in _HARMLESS]
        if extra:
            raise MismatchError(f"this form of {op.upper()} is not supported", "", f"write {op.upper()} with its plain arguments")
        nodes: list[exp.Expression] = []
        for key in keys:
            value = node.args.get(key)
            nodes.extend(value if isinstance(value, list) else [value] if value is not None else [])
        if isinstance(node, exp.Year | exp.Month | exp.Day | exp.DayOfMonth) and isinstance(nodes[0], exp.TsOrDsToDate):
            nodes = [nodes[0].this]  # sqlglot's own wrapping
        literal = _side_by_side(self.source, nodes) if op == "concat" else None
        if literal is not None:
            return Lit(literal, "string")
        args = tuple(self.expr(n, depth) for n in nodes)
        if op == "neg" and isinstance(args[0], Lit):
            turned = literals.negative(args[0])
            if turned is not None:
                return turned
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
        kinds = (call.type if at % 2 or at == last else "boolean" for at in range(last + 1))
        return Call("case", tuple(map(_void_as, call.args, kinds)), call.type)

    def nullif(self, node: exp.Expression, depth: int) -> Expr:
        left, right = self.expr(node.this, depth), self.expr(node.expression, depth)
        return Call("case", (self._compare(node, "=", left, right), Lit(None, left.type), left), left.type)

    def between(self, node: exp.Expression, depth: int) -> Expr:
        if node.args.get("symmetric"):
            raise MismatchError("BETWEEN SYMMETRIC is not supported", "", "write BETWEEN least AND greatest")
        value, low, high = (self.expr(node.args[k], depth) for k in ("this", "low", "high"))
        return typed("and", (self._compare(node, ">=", value, low), self._compare(node, "<=", value, high)))

    def distinct(self, node: exp.Expression, depth: int) -> Expr:
        return typed("not", (self._compare(node, "<=>", self.expr(node.this, depth), self.expr(node.expression, depth)),))

    def is_(self, node: exp.Expression, depth: int) -> Expr:
        value, what = self.expr(node.this, depth), node.expression
        if isinstance(what, exp.Null):
            return typed("isnull", (value,))
        if isinstance(what, exp.Boolean):
            return typed("<=>", (value, Lit(bool(what.this), "boolean")))
        raise self._unsupported(node)

    def in_(self, node: exp.Expression, depth: int) -> Expr:
        choices = node.expressions
        if not choices or any(v for k, v in node.args.items() if k not in ("this", "expressions", "negate")):
            raise MismatchError("IN needs a list of values", "", "write R.a IN (1, 2, 3)")
        value = self.expr(node.this, depth)
        return typed("or", tuple(self._compare(node, "=", value, self.expr(choice, depth)) for choice in choices))

    def like(self, node: exp.Expression, depth: int) -> Expr:
        escape: tuple[Expr, ...] = ()
        if isinstance(node, exp.Escape):
            if type(node.this) is not exp.Like:
                raise self._unsupported(node.this)
            escape, node = (self.expr(node.expression, depth),), node.this
        pattern = self.expr(node.expression, depth) if isinstance(node.expression, exp.Literal | exp.RawString | exp.Concat) else None
        letter = escape[0].value if escape and isinstance(escape[0], Lit) else "\\"
        if not isinstance(pattern, Lit) or not isinstance(pattern.value, str) or not isinstance(letter, str) or len(letter) != 1:
            raise MismatchError("LIKE needs a literal pattern", "", "write e.g. R.name LIKE 'a%', with ESCAPE and one character if need be")
        if (len(pattern.value) - len(pattern.value.rstrip(letter))) % 2:
            raise MismatchError("a LIKE pattern ends in its escape character", "", "double it")
        call = typed("like", (self.expr(node.this, depth), pattern, *(e for e in escape if letter != "\\")))
        return typed("not", (call,)) if node.args.get("negate") and escape else call

    def cast(self, node: exp.Expression, depth: int) -> Expr:
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
        return self.scope.resolve(self.source, node)

    def literal(self, node: exp.Expression, depth: int) -> Expr:
        if isinstance(node, exp.Null):
            return Lit(None, VOID)
        if isinstance(node, exp.Boolean):
            return Lit(bool(node.this), "boolean")
        if isinstance(node, exp.Interval):
            return literals.interval(node)
        return Lit(node.this, "string") if node.is_string or isinstance(node, exp.RawString) else literals.number(node.this)

    def _unsupported(self, node: exp.Expression) -> Exception:
        span = self.source.span(node)
        if isinstance(node, exp.Bracket | exp.Dot):
            return self.source.error(span, "fields inside a column are not supported", "name whole columns: alias.column")
        written = self.source.text[span[0] : span[1]].partition("(")[0].strip()
        if isinstance(node, exp.Func) and (written.isidentifier() or isinstance(node, exp.Anonymous)):
            name = (written if written.isidentifier() else node.name).upper()
            hint = did_you_mean(name, NAMES, "compute it before the stream is registered;") + f" supported are {listed(NAMES, 60)}"
            return self.source.error(span, f"the function {name} is not supported", hint)
        hint = "see docs/queries.md for what is; compute others before the stream is registered"
        what = "operator" if isinstance(node, exp.Binary | exp.Unary) else "kind of expression"
        return self.source.error(span, f"this {what} is not supported", hint)


_Handler = Callable[[_Conversion, exp.Expression, int], Expr]
_SPECIAL: dict[type[exp.Expression], _Handler] = {
    exp.Case: _Conversion.case, exp.If: _Conversion.case, exp.Nullif: _Conversion.nullif, exp.Between: _Conversion.between,
    exp.NullSafeNEQ: _Conversion.distinct,
    exp.Is: _Conversion.is_, exp.In: _Conversion.in_, exp.Like: _Conversion.like, exp.Escape: _Conversion.like,
    exp.Cast: _Conversion.cast, exp.TryCast: _Conversion.cast, exp.Paren: _Conversion.unwrapped,
    exp.Column: _Conversion.column, exp.Literal: _Conversion.literal, exp.RawString: _Conversion.literal, exp.Null: _Conversion.literal,
    exp.Boolean: _Conversion.literal, exp.Interval: _Conversion.literal,
}  # fmt: skip


def flatten(node: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    """The parts of a chain of AND or OR in order, without recursion: such chains may be thousands long."""
    parts: list[exp.Expression] = []
    pending = [node]
    while pending:
        one = pending.pop()
        inner = one.unnest() if isinstance(one, exp.Paren) else one
        if type(inner) is kind and not inner.args.get("negate"):
            pending += [inner.expression, inner.this]
        else:
            parts.append(one)
    return parts


def _side_by_side(source: Source, nodes: list[exp.Expression]) -> str | None:
    """`'a' 'b'` is `ab`; with nothing in between, `'it''s'`, it is one literal with a quote in it. sqlglot makes both a CONCAT."""
    at = source.index_at(nodes[0].meta["start"]) if nodes and "start" in nodes[0].meta else len(source.tokens)
    tokens = source.tokens[at : at + len(nodes)]
    if len(tokens) < max(2, len(nodes)) or any(token.token_type is not TokenType.STRING for token in tokens):
        return None
    text = tokens[0].text
    for before, token in pairwise(tokens):
        text += (source.text[token.start] if before.end + 1 == token.start else "") + token.text
    return text


def _as_time(expr: Expr, beside: str) -> Expr:
    if isinstance(expr, Lit) and expr.type == "string" and isinstance(expr.value, str) and beside in ("date", *TIMES):
        return literals.cast_literal(expr, beside) or expr
    return expr


def _void_as(expr: Expr, kind: str) -> Expr:
    return Lit(None, kind) if isinstance(expr, Lit) and expr.type == VOID else expr
