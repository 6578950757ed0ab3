"""sqlglot's expressions to those of the model: names resolved, types inferred, restricted to what `functions` lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from clash.errors import QueryError
from clash.hints import did_you_mean
from clash.model.coercion import INTERVAL, VOID, castable
from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.projection import is_by_spark, needs_spark
from clash.model.types import UNKNOWN, is_atomic, is_numeric, joinable, struct_fields
from clash.sql import literals
from clash.sql.cast_types import target_type
from clash.sql.computed import computed_expression, resolve_with_fields, whole_by_spark
from clash.sql.functions import NAMES, typed
from clash.sql.implicit_casts import as_time, cast_expression, in_one_type, with_type_of_null
from clash.sql.name_lookup import look_up
from clash.sql.named_functions import NAMED, extract
from clash.sql.query_source import QuerySource, adjacent_strings
from clash.sql.result_types import TIME_UNITS, MismatchError
from clash.sql.scope import Scope
from clash.sql.spark_parser import UnaryPlus
from clash.sql.time_sums import time_sum

UNREAD = "unread"  # in the metadata of a call: the error for an argument that its conversion does not read
_MAX_DEPTH = 60  # keeps this and every later recursion over expressions far from Python's limit
BINARY: dict[type[exp.Expression], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%",
    exp.IntDiv: "div", exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^",
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>", exp.DPipe: "concat",
}  # fmt: skip
_COMPARISONS = {"=", "<>", "<", "<=", ">", ">=", "<=>"}
CONNECTIVES: dict[type[exp.Expression], str] = {exp.And: "and", exp.Or: "or"}
# operator of the model, and the keys of its arguments in sqlglot, in order; a key of a list stands for all its elements
CALLS: dict[type[exp.Expression], tuple[str, tuple[str, ...]]] = {
    exp.Neg: ("neg", ("this",)), exp.Not: ("not", ("this",)),
    exp.Abs: ("abs", ("this",)), exp.Round: ("round", ("this", "decimals")), exp.Floor: ("floor", ("this",)), exp.Ceil: ("ceil", ("this",)),
    exp.Lower: ("lower", ("this",)), exp.Upper: ("upper", ("this",)), exp.Length: ("length", ("this",)),
    exp.BitwiseNot: ("~", ("this",)), exp.StrPosition: ("instr", ("this", "substr")),
    exp.Substring: ("substring", ("this", "start", "length")), exp.Concat: ("concat", ("expressions",)),
    exp.Coalesce: ("coalesce", ("this", "expressions")),
    exp.Greatest: ("greatest", ("this", "expressions")), exp.Least: ("least", ("this", "expressions")),
    exp.Year: ("year", ("this",)), exp.Month: ("month", ("this",)), exp.Day: ("day", ("this",)), exp.DayOfMonth: ("day", ("this",)),
    exp.Hour: ("hour", ("this",)), exp.Minute: ("minute", ("this",)), exp.Second: ("second", ("this",)),
}  # fmt: skip
# conditions that Spark does not nest without parentheses, or nests in another way than sqlglot
_CONDITIONS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike,
    exp.Escape,
    exp.Not,
)  # fmt: skip


def convert_expression(node: exp.Expression, scope: Scope, source: QuerySource, is_output: bool = False) -> Expr:
    """The typed expression, not yet in normal form: one that tasks evaluate, or one that Spark does as a whole. `is_output`: whether only
    results have it."""
    expr = _Converter(scope, source, is_output).expr(node, 0)
    return whole_by_spark(node, scope, source, is_output) if needs_spark(expr) and not is_by_spark(expr) else expr


@dataclass(frozen=True, slots=True)
class _Converter:
    scope: Scope
    source: QuerySource
    is_output: bool

    def expr(self, node: exp.Expression, depth: int) -> Expr:
        """Any expression; errors of types get their place in the text here, at the innermost node."""
        if depth > _MAX_DEPTH:
            raise self.source.error(node, "the expression is nested too deeply", f"{_MAX_DEPTH} levels at most; AND and OR may be longer")
        try:
            result = self._dispatch(node, depth + 1)
        except MismatchError as error:
            return self._computed(node, self.source.error(node, error.what, error.hint, error.note))
        except QueryError as error:
            return self._computed(node, error)
        return typed("not", (result,)) if node.args.get("negate") else result

    def _computed(self, node: exp.Expression, error: QueryError) -> Expr:
        return computed_expression(node, self.scope, self.source, error, self.is_output)

    def _dispatch(self, node: exp.Expression, depth: int) -> Expr:
        kind = type(node)
        if UNREAD in node.meta:
            raise node.meta[UNREAD]
        if (
            isinstance(node, _CONDITIONS)
            and not isinstance(node, exp.Not | exp.Escape)
            and any(isinstance(node.args.get(key), _CONDITIONS) for key in ("this", "expression"))
        ):
            raise MismatchError("a condition is an operand of another one", "", "put the inner condition in parentheses")
        if kind in CONNECTIVES:
            return typed(CONNECTIVES[kind], tuple(self.boolean(part, depth) for part in flatten(node, kind)))
        if kind in BINARY:
            if kind in (exp.Add, exp.Sub):
                return time_sum(BINARY[kind], node.this, node.expression, lambda part: self.expr(part, depth))
            left, right = self.expr(node.this, depth), self.expr(node.expression, depth)
            return self._compare(node, BINARY[kind], left, right) if BINARY[kind] in _COMPARISONS else typed(BINARY[kind], (left, right))
        if kind in CALLS:
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
        left, right = as_time(left, right.type), as_time(right, left.type)
        columns = isinstance(left, Col) and isinstance(right, Col) and left.relation != right.relation
        if op == "=" and columns and not joinable(left.type, right.type):
            note = f"{left.type} and {right.type}"
            if not (is_atomic(left.type) and is_atomic(right.type)):
                raise self.source.error(node, "a join on nested types is not supported", "join on a column of an atomic type", note)
            text = "string" in (left.type, right.type) and (is_numeric(left.type) or is_numeric(right.type))
            if not text:
                what = "columns of these types cannot be joined"
                raise self.source.error(node, what, "give both streams the same type before they are registered", note)
            left, right = _text_as_number(left, right.type), _text_as_number(right, left.type)
        return typed(op, (left, right))

    def named(self, node: exp.Expression, depth: int) -> Expr:
        """A function by Spark's own name."""
        build = NAMED.get(node.this.upper()) if isinstance(node.this, str) else None
        if build is None:
            raise self._unsupported(node)
        args = [self.expr(arg, depth) for arg in node.expressions]
        at = {"TRUNC": 1, "DATE_TRUNC": 0}.get(node.this.upper())
        if at is not None and at < len(args):
            args[at] = _unit(args[at])
        return build(tuple(args))

    def extract(self, node: exp.Expression, depth: int) -> Expr:
        return extract(node.this.name, self.expr(node.expression, depth))

    def trim(self, node: exp.Expression, depth: int) -> Expr:
        """TRIM, LTRIM and RTRIM, with the characters that they remove, if these are given."""
        op = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
        parts = [node.this, *([node.expression] if node.args.get("expression") is not None else [])]
        return typed(op, tuple(self.expr(part, depth) for part in parts))

    def _call(self, node: exp.Expression, depth: int) -> Expr:
        op, keys = CALLS[type(node)]
        nodes: list[exp.Expression] = []
        for key in keys:
            value = node.args.get(key)
            nodes.extend(value if isinstance(value, list) else [value] if value is not None else [])
        if isinstance(node, exp.Year | exp.Month | exp.Day | exp.DayOfMonth) and isinstance(nodes[0], exp.TsOrDsToDate):
            nodes = [nodes[0].this]  # added by sqlglot
        literal = adjacent_strings(self.source, nodes) if op == "concat" else None
        if literal is not None:
            return Lit(literal, "string")
        args = tuple(self.expr(n, depth) for n in nodes)
        if op == "neg" and isinstance(args[0], Lit):
            negated = literals.negative_number(args[0]) if isinstance(nodes[0], exp.Literal) else literals.negative(args[0])
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
        return Call("case", tuple(map(with_type_of_null, call.args, types)), call.type)

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
        value, *listed_ = in_one_type([self.expr(part, depth) for part in (node.this, *choices)])
        return typed("or", tuple(self._compare(node, "=", value, choice) for choice in listed_))

    def like(self, node: exp.Expression, depth: int) -> Expr:
        """LIKE with a literal pattern, alone or inside ESCAPE."""
        escape: tuple[Expr, ...] = ()
        if isinstance(node, exp.Escape):
            if type(node.this) not in (exp.Like, exp.ILike):
                raise self._unsupported(node.this)
            escape, node = (self.expr(node.expression, depth),), node.this
        pattern = self.expr(node.expression, depth) if isinstance(node.expression, exp.Literal | exp.RawString | exp.Concat) else None
        escape_char = escape[0].value if escape and isinstance(escape[0], Lit) else "\\"
        if not isinstance(pattern, Lit) or not isinstance(pattern.value, str) or not isinstance(escape_char, str) or len(escape_char) != 1:
            raise MismatchError("LIKE needs a literal pattern", "", "write e.g. R.name LIKE 'a%', with ESCAPE and one character if need be")
        if (len(pattern.value) - len(pattern.value.rstrip(escape_char))) % 2:
            raise MismatchError("a LIKE pattern ends in its escape character", "", "double it")
        value = self.expr(node.this, depth)
        if isinstance(node, exp.ILike):
            value, pattern = typed("lower", (value,)), Lit(pattern.value.lower(), "string")
            if escape_char != escape_char.lower():
                raise MismatchError("ILIKE needs an escape character without case", "", "write ESCAPE '!' or such")
        call = typed("like", (value, pattern, *(e for e in escape if escape_char != "\\")))
        return typed("not", (call,)) if node.args.get("negate") and escape else call

    def cast(self, node: exp.Expression, depth: int) -> Expr:
        """CAST to an atomic type; literals are cast here where the result is certain."""
        if isinstance(node, exp.TryCast) and node.args.get("safe"):
            raise MismatchError("TRY_CAST is not supported", "", "write CAST; a value that does not fit ends the run with an error")
        to = node.args["to"]
        target = target_type(to) if isinstance(to, exp.DataType) else ""
        if not target or node.args.get("format"):
            raise MismatchError("CAST goes to atomic types only", "", "write e.g. bigint, double, decimal(10,2), string, date or timestamp")
        value = self.expr(node.this, depth)
        if value.type == target:
            return value
        if not castable(value.type, target):
            raise MismatchError(f"{value.type} cannot be cast to {target}", "", "go through string, if that is meant")
        typed("cast", (value,))  # refuses nested types
        return cast_expression(value, target)

    def plus(self, node: exp.Expression, depth: int) -> Expr:
        """A unary plus, which has no effect on a number; of a text Spark makes a double."""
        value = self.expr(node.this, depth)
        if not (is_numeric(value.type) or value.type in (INTERVAL, UNKNOWN, VOID)):
            raise MismatchError("+ needs a number", f"this is {value.type}", "leave the + out, or write CAST(… AS double)")
        return value

    def unwrapped(self, node: exp.Expression, depth: int) -> Expr:
        return self.expr(node.this, depth)

    def column(self, node: exp.Expression, depth: int) -> Expr:
        assert isinstance(node, exp.Column)
        if isinstance(node.this, exp.Star):
            raise MismatchError("* stands for columns, not for a value", "", "name the column")
        if len(node.parts) < 3:
            try:
                return self.scope.resolve_column(self.source, node)
            except QueryError:
                if len(node.parts) == 1:
                    raise
        value, fields = resolve_with_fields(node, self.scope, self.source)
        for field in fields:
            value = _field_of(value, field)
        return value

    def dot(self, node: exp.Expression, depth: int) -> Expr:
        """A field of an expression."""
        if not isinstance(node.expression, exp.Identifier):
            raise self._unsupported(node)
        return _field_of(self.expr(node.this, depth), node.expression.name)

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
        if isinstance(node, exp.Func) and not isinstance(node, exp.Binary):
            spelling, called, _ = self.source.text[span[0] : span[1]].partition("(")
            name = (spelling.strip() if called and spelling.strip().isidentifier() else node.name or node.sql_name()).upper()
            if name in NAMES:
                return self.source.error(span, f"this form of {name} is not supported", f"write {name} with its plain arguments")
            known = "docs/queries.md lists those that are; compute others before the stream is registered"
            # a function that sqlglot knows is not misspelled
            hint = did_you_mean(name, NAMES, known) if isinstance(node, exp.Anonymous) else known
            return self.source.error(span, f"the function {name} is not supported", hint)
        hint = "see docs/queries.md for what is; compute others before the stream is registered"
        what = "operator" if isinstance(node, exp.Binary | exp.Unary) else "kind of expression"
        return self.source.error(span, f"this {what} is not supported", hint)


_Handler = Callable[[_Converter, exp.Expression, int], Expr]
_SPECIAL: dict[type[exp.Expression], _Handler] = {
    exp.Case: _Converter.case, exp.If: _Converter.case, exp.Nullif: _Converter.nullif, exp.Between: _Converter.between,
    exp.NullSafeNEQ: _Converter.distinct,
    exp.Is: _Converter.is_, exp.In: _Converter.in_, exp.Like: _Converter.like, exp.Escape: _Converter.like,
    exp.Cast: _Converter.cast, exp.TryCast: _Converter.cast, exp.Paren: _Converter.unwrapped, UnaryPlus: _Converter.plus,
    exp.Column: _Converter.column, exp.Literal: _Converter.literal, exp.RawString: _Converter.literal, exp.Null: _Converter.literal,
    exp.Boolean: _Converter.literal, exp.Interval: _Converter.literal, exp.ILike: _Converter.like,
    exp.Dot: _Converter.dot, exp.Anonymous: _Converter.named, exp.Extract: _Converter.extract, exp.Trim: _Converter.trim,
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


def _field_of(value: Expr, name: str) -> Expr:
    """A field of a struct. As for columns, its exact name counts first, then one that differs in case only."""
    fields = [field for field, _ in struct_fields(value.type)]
    if not fields:
        raise MismatchError("fields inside a column are not supported", "", "name whole columns: alias.column")
    return typed("field", (value, Lit(look_up(name, fields) or name, "string")))


def _text_as_number(side: Expr, other: str) -> Expr:
    """One side of an equality between a text and a number, in the type in which Spark compares them: the bigint or double."""
    target = "bigint" if {side.type, other} & {"tinyint", "smallint", "int", "bigint"} else "double"
    return side if side.type == target or (target == "bigint" and side.type != "string") else cast_expression(side, target)


def _unit(expr: Expr) -> Expr:
    """A unit to truncate to under one of its names, so that equal calls are equal expressions."""
    name = expr.value.upper() if isinstance(expr, Lit) and isinstance(expr.value, str) else None
    return expr if name is None else Lit(TIME_UNITS.get(name, name), "string")
