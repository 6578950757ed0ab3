"""Frozen, typed data as JSON and back, by its type annotations alone.

One codec serves everything that is recorded in a checkpoint or sent between processes, so no class has a codec of its own. (`Statistics`
has one for the file that users write.) The form is fixed by the types:

- a dataclass is an object of its fields, and a field that has its default value is left out; with `compact` it is an array of its fields,
  and those at the end that have their default values are left out; a NamedTuple is an array of its fields, of which those at the end that
  are annotated as `LATER` and have their default values are left out: it got them after it was first recorded;
- a union of dataclasses is `[class name, object]`; None, numbers, text and booleans are themselves; bytes are base64 text;
- a tuple or list is an array; a set is an array in the order of its elements' JSON text;
- a mapping with text or integer keys is an object, any other is an array of pairs in the order of the keys' JSON text;
- a numpy array is `[dtype, shape, base64 text]`, integers in as few bytes as the largest of them needs. Signed ones, mostly small counts,
  are deflated where that is shorter, with "zlib" as a fourth element; unsigned ones are hashes and bits, most of which do not shrink.

Values of the `interned` classes, which must be hashable dataclasses, are written once, in a table beside the body, and referred to by
number: probe orders and rules mention the same sub-joins over and over.

Invariant: `decode(encode(x)) == x`, and equal values give equal JSON, whatever the order in which sets and mappings were built, if every
value is exactly of its annotated type (1 in a float field equals 1.0, but has another JSON; so do 0.0 and -0.0).

Decoding trusts nothing: structure, numbers, text and booleans are compared with the annotations, and an array is no larger than its shape
says.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from threading import Lock
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

T = TypeVar("T")
LATER = "later"
"""Marks a field of a NamedTuple, `Annotated[…, LATER]`, that earlier versions do not write."""
Convert = Callable[[Any], Any]
_PLAIN = (bool, int, float, str)
_UNSIGNED = {"u1": (1 << 8) - 1, "u2": (1 << 16) - 1, "u4": (1 << 32) - 1}  # dtype and its largest value
_DTYPES = frozenset({"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"})
_MAX_RATIO = 1040  # of inflated to deflated bytes; deflating cannot do better
_MIN_DEFLATED = 64  # bytes of an array; for fewer the overhead of deflating exceeds the gain


class Codec(Generic[T]):
    """Encodes values of one type. `interned` are classes whose values are written once per document."""

    def __init__(self, kind: Any, interned: tuple[type, ...] = (), compact: bool = False) -> None:
        self._kind, self._interned = kind, interned
        self._converters = _Converters(interned, compact)
        self._lock = Lock()  # the tables of interned values belong to one document at a time
        self._making = Lock()

    def encode(self, value: T) -> Any:
        """The value as data that `json.dumps` takes."""
        convert = self._encoder()
        if not self._interned:
            return convert(value)
        with self._lock, self._converters.document({cls.__name__: [] for cls in self._interned}) as tables:
            return {"body": convert(value), "tables": tables}

    def decode(self, data: Any) -> T:
        """The value of encoded data; ValueError if it is not of the type."""
        try:
            convert = self._decoder()
            if not self._interned:
                return convert(data)  # type: ignore[no-any-return]
            with self._lock, self._converters.document(data["tables"]):
                return convert(data["body"])  # type: ignore[no-any-return]
        except (TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error

    def _encoder(self) -> Convert:
        with self._making:  # another thread must not use converters that are being made
            return self._converters.encoder(self._kind)

    def _decoder(self) -> Convert:
        with self._making:
            return self._converters.decoder(self._kind)

    def dumps(self, value: T) -> str:
        """The value as JSON text, without white space."""
        return dump(self.encode(value))

    def loads(self, text: str | bytes) -> T:
        """The value of JSON text; ValueError if it is not JSON or not of the type."""
        try:
            data = json.loads(text, parse_constant=lambda constant: _refuse(constant, "JSON"))
        except RecursionError as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        return self.decode(data)


def dump(data: Any) -> str:
    """JSON text in one canonical form."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


class _Converters:
    """The functions that convert each type. They are made when a type is first used, because types may refer to themselves."""

    def __init__(self, interned: tuple[type, ...], compact: bool) -> None:
        self._interned, self._compact = interned, compact
        self._tables: dict[str, list[Any]] = {}
        self._numbers: dict[Any, int] = {}
        self._values: dict[tuple[type, int], Any] = {}
        self._encoders: dict[Any, Convert | None] = {}
        self._decoders: dict[Any, Convert | None] = {}

    @contextmanager
    def document(self, tables: dict[str, list[Any]]) -> Iterator[dict[str, list[Any]]]:
        """The context in which one document is converted, whose interned values are in these tables."""
        self._tables = tables
        try:
            yield tables
        finally:
            self._tables, self._numbers, self._values = {}, {}, {}

    def encoder(self, hint: Any) -> Convert:
        return self._cached(self._encoders, hint, self._make_encoder)

    def decoder(self, hint: Any) -> Convert:
        return self._cached(self._decoders, hint, self._make_decoder)

    def _cached(self, cache: dict[Any, Convert | None], hint: Any, make: Callable[[Any], Convert]) -> Convert:
        """The converter of a type. While it is being made, and the type refers to itself, that is a function that looks it up later."""
        if hint not in cache:
            cache[hint] = None
            try:
                cache[hint] = make(hint)
            except TypeError:
                del cache[hint]
                raise

        def look_up(value: Any) -> Any:
            return cache[hint](value)  # type: ignore[misc]

        return cache[hint] or look_up

    # ---- to JSON -----------------------------------------------------------------------------------------------

    def _make_encoder(self, hint: Any) -> Convert:
        if hint in self._interned:
            return self._intern(hint)
        origin, args = get_origin(hint), get_args(hint)
        if _is_plain(hint):
            return _same
        if origin in (Union, UnionType):
            return self._union_encoder(args)
        if hint is bytes:
            return lambda value: base64.b64encode(value).decode()
        if origin is np.ndarray:
            return _encode_array
        if _is_named_tuple(hint):
            return self._named_tuple_encoder(hint)
        if is_dataclass(hint):
            return self._object_encoder(hint)  # type: ignore[arg-type]
        if origin in (tuple, list):
            if origin is list or args[1:] == (...,):
                each = self.encoder(args[0])
                return list if each is _same else lambda value: [each(element) for element in value]
            parts = [self.encoder(kind) for kind in args]
            return lambda value: [encode(part) for encode, part in zip(parts, value, strict=True)]
        if origin in (frozenset, set):
            each, ordered = self.encoder(args[0]), self._numbering_order(args[0])
            return lambda value: sorted((each(element) for element in ordered(value)), key=dump)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return self._mapping_encoder(*args)
        raise TypeError(f"no JSON form of {hint}")

    def _intern(self, cls: type) -> Convert:
        content, name = self._object_encoder(cls), cls.__name__

        def encode(value: Any) -> int:
            number = self._numbers.get(value)
            if number is None:
                data, table = content(value), self._tables[name]  # the interned values inside it are numbered first
                number = self._numbers[value] = len(table)
                table.append(data)
            return number

        return encode

    def _union_encoder(self, args: tuple[Any, ...]) -> Convert:
        kinds = [kind for kind in args if kind is not NoneType]
        if len(kinds) == 1:
            inner = self.encoder(kinds[0])
            return _same if inner is _same else lambda value: None if value is None else inner(value)
        parts = {kind: self.encoder(_named(kind)) for kind in kinds}
        return lambda value: None if value is None else [type(value).__name__, parts[type(value)](value)]

    def _object_encoder(self, cls: type) -> Convert:
        hints = _hints(cls)
        parts = [(f.name, self.encoder(hints[f.name]), _default(f)) for f in fields(cls)]

        def encode(value: Any) -> dict[str, Any]:
            data = {}
            for name, convert, default in parts:
                part = getattr(value, name)
                if default is MISSING or part != default:
                    data[name] = convert(part)
            return data

        def encode_compact(value: Any) -> list[Any]:
            data = [convert(getattr(value, name)) for name, convert, _ in parts]
            while data and getattr(value, parts[len(data) - 1][0]) == parts[len(data) - 1][2]:
                data.pop()
            return data

        return encode_compact if self._compact else encode

    def _named_tuple_encoder(self, cls: Any) -> Convert:
        parts, later = [self.encoder(kind) for kind in _hints(cls).values()], _later(cls)

        def encode(value: Any) -> list[Any]:
            data = [convert(part) for convert, part in zip(parts, value, strict=True)]
            for default, part in zip(reversed(later), reversed(value), strict=False):
                if part != default:
                    break
                data.pop()
            return data

        return encode

    def _mapping_encoder(self, key: Any, kind: Any) -> Convert:
        each = self.encoder(kind)
        if key in (str, int):
            if _mentions(kind, self._interned):
                return lambda value: {str(name): each(value[name]) for name in sorted(value)}
            return lambda value: {str(name): each(part) for name, part in value.items()}
        names, ordered = self.encoder(key), self._numbering_order(key, kind)
        return lambda value: sorted(([names(name), each(value[name])] for name in ordered(value)), key=lambda pair: dump(pair[0]))

    def _numbering_order(self, element: Any, *others: Any) -> Callable[[Iterable[Any]], Iterable[Any]]:
        """Puts elements of a set, or keys of a mapping, into an order that depends on nothing but their values.

        Interned values are numbered in the order in which they are encoded, so that order must be fixed before they are encoded. Where
        no interned values are involved, sorting the encoded elements suffices.
        """
        if not any(_mentions(hint, self._interned) for hint in (element, *others)):
            return lambda elements: elements
        encode = _Converters((), self._compact).encoder(element)
        return lambda elements: sorted(elements, key=lambda one: dump(encode(one)))

    # ---- from JSON ---------------------------------------------------------------------------------------------

    def _make_decoder(self, hint: Any) -> Convert:
        if hint in self._interned:
            return self._look_up(hint)
        origin, args = get_origin(hint), get_args(hint)
        if _is_plain(hint):
            return _leaf_decoder(hint)
        if origin in (Union, UnionType):
            return self._union_decoder(args)
        if hint is bytes:
            return lambda data: base64.b64decode(data, validate=True)
        if origin is np.ndarray:
            dtype = np.dtype(get_args(args[1])[0])
            return lambda data: _decode_array(data, dtype)
        if _is_named_tuple(hint):
            return self._array_decoder(hint._make, list(_hints(hint).values()), _later(hint))
        if is_dataclass(hint):
            return self._object_decoder(hint)  # type: ignore[arg-type]
        if origin is tuple and args[1:] != (...,):
            return self._array_decoder(tuple, list(args))
        if origin in (tuple, list, frozenset, set):
            each, make = self.decoder(args[0]), origin
            return lambda data: make([each(element) for element in _array(data)])
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return self._mapping_decoder(*args)
        raise TypeError(f"no JSON form of {hint}")

    def _array_decoder(self, make: Callable[[list[Any]], Any], kinds: list[Any], defaults: list[Any] | None = None) -> Convert:
        """Decodes arrays whose elements have a type each; `defaults` are those of the last elements, which may be missing."""
        size, converters, last = len(kinds), [self.decoder(kind) for kind in kinds], defaults or []

        def decode(data: Any) -> Any:
            if type(data) is not list or not size - len(last) <= len(data) <= size:
                _refuse(data, f"an array of {size} elements")
            missing = last[len(data) - size :] if len(data) < size else []
            return make([*(convert(part) for convert, part in zip(converters, data, strict=False)), *missing])

        return decode

    def _look_up(self, cls: type) -> Convert:
        content, name = self._object_decoder(cls), cls.__name__

        def decode(number: Any) -> Any:
            if type(number) is not int or number < 0:
                _refuse(number, f"the number of a {name}")
            key = cls, number
            if key not in self._values:
                self._values[key] = content(self._tables[name][number])
            return self._values[key]

        return decode

    def _union_decoder(self, args: tuple[Any, ...]) -> Convert:
        kinds = [kind for kind in args if kind is not NoneType]
        if len(kinds) == 1:
            inner = self.decoder(kinds[0])
            return lambda data: None if data is None else inner(data)
        parts = {_named(kind).__name__: self.decoder(kind) for kind in kinds}

        def decode(data: Any) -> Any:
            if data is None and NoneType in args:
                return None
            name, content = _array(data)
            return parts[name](content)

        return decode

    def _object_decoder(self, cls: type) -> Convert:
        hints = _hints(cls)
        parts = {f.name: self.decoder(hints[f.name]) for f in fields(cls)}
        by_position = list(parts.values())

        def decode(data: Any) -> Any:
            return cls(**{name: parts[name](part) for name, part in data.items()})

        def decode_compact(data: Any) -> Any:
            if len(_array(data)) > len(by_position):
                _refuse(data, f"an array of at most {len(by_position)} elements")
            return cls(*[convert(part) for convert, part in zip(by_position, data, strict=False)])

        return decode_compact if self._compact else decode

    def _mapping_decoder(self, key: Any, kind: Any) -> Convert:
        each = self.decoder(kind)
        if key is str:
            return lambda data: {name: each(part) for name, part in data.items()}
        if key is int:
            return lambda data: {int(name): each(part) for name, part in data.items()}
        names = self.decoder(key)
        return lambda data: {names(name): each(part) for name, part in _array(data)}


def _same(value: Any) -> Any:
    return value


def _is_plain(hint: Any) -> bool:
    """Whether JSON represents values of the type as they are."""
    if get_origin(hint) in (Union, UnionType):
        return all(_is_plain(kind) for kind in get_args(hint))
    return hint in (*_PLAIN, NoneType) or get_origin(hint) is Literal


def _leaf_decoder(hint: Any) -> Convert:
    """Checks a value that JSON represents as it is."""
    hints = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    allowed = tuple(value for kind in hints if get_origin(kind) is Literal for value in get_args(kind))
    kinds = {kind for kind in hints if get_origin(kind) is not Literal}
    kinds |= {int} if float in kinds else set()  # JSON has one kind of numbers
    expected = str(getattr(hint, "__name__", hint))

    def decode(data: Any) -> Any:
        kind = type(data)
        if kind in kinds:
            return data
        return data if any(data == value and kind is type(value) for value in allowed) else _refuse(data, expected)

    return decode


def _refuse(data: Any, expected: str) -> Any:
    raise ValueError(f"{repr(data)[:80]} is not {expected}")


def _array(data: Any) -> list[Any]:
    return data if type(data) is list else _refuse(data, "an array")


def _named(kind: Any) -> Any:
    """A member of a union, whose values must be recognisable by their class."""
    if not isinstance(kind, type):
        raise TypeError(f"no JSON form of {kind} in a union")
    return kind


def _mentions(hint: Any, classes: tuple[type, ...], seen: tuple[Any, ...] = ()) -> bool:
    """Whether values of the type may contain values of one of the classes."""
    if hint in classes or hint in seen:
        return hint in classes
    parts = _hints(hint).values() if is_dataclass(hint) or _is_named_tuple(hint) else get_args(hint)
    return any(_mentions(part, classes, (*seen, hint)) for part in parts)


@lru_cache(maxsize=256)
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def _is_named_tuple(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


@lru_cache(maxsize=256)
def _later(cls: Any) -> list[Any]:
    """The defaults of the last fields of a NamedTuple, of those that were added later."""
    hints = get_type_hints(cls, include_extras=True)
    return [cls._field_defaults[name] for name, hint in hints.items() if get_origin(hint) is Annotated and LATER in hint.__metadata__]


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _encode_array(value: Any) -> list[Any]:
    kind = value.dtype.newbyteorder("=")
    if value.size and (kind.kind == "u" or (kind.kind == "i" and value.min() >= 0)):
        largest = int(value.max())
        kind = next((np.dtype(name) for name, limit in _UNSIGNED.items() if largest <= limit), kind)
    content = np.ascontiguousarray(value.astype(kind.newbyteorder("<"), copy=False)).tobytes()
    form = [kind.str.lstrip("<|"), list(value.shape)]
    if value.dtype.kind == "i" and len(content) >= _MIN_DEFLATED and len(deflated := zlib.compress(content, 1)) < len(content):
        return [*form, base64.b64encode(deflated).decode(), "zlib"]
    return [*form, base64.b64encode(content).decode()]


def _decode_array(data: Any, dtype: Any) -> Any:
    kind, shape, text, *compression = _array(data)
    if type(kind) is not str or kind not in _DTYPES:
        _refuse(kind, "a type of numbers")
    if any(type(length) is not int or length < 0 for length in _array(shape)):
        _refuse(shape, "the shape of an array")
    content = base64.b64decode(text, validate=True)
    if compression:
        size = math.prod(shape) * np.dtype(kind).itemsize
        content = _inflate(content, size) if compression == ["zlib"] else _refuse(compression, "a compression")
    return np.frombuffer(content, f"<{kind}").astype(dtype).reshape(shape)


def _inflate(content: bytes, size: int) -> bytes:
    """Of `size` bytes; a little data may inflate to as much as memory holds."""
    if size > len(content) * _MAX_RATIO:
        _refuse(size, "a size that so little data can have")
    try:
        return zlib.decompressobj().decompress(content, size + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
