"""The specification of `clash.codec`: the JSON form of every kind of type, and what holds for all of them."""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
import sys
import textwrap
import threading
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Barrier
from typing import Annotated, Any, Literal, NamedTuple, Optional

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from clash.codec import LATER, Codec, dump
from clash.model.expressions import Call, Expr, Lit


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Grown(NamedTuple):
    left: int
    right: str = "r"
    first: Annotated[int, LATER] = 0
    second: Annotated[tuple[int, ...], LATER] = ()


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Circle:
    centre: Point
    radius: float = 1.0


@dataclass(frozen=True)
class Empty:
    pass


@dataclass(frozen=True)
class Tree:
    """A type that refers to itself."""

    label: str
    children: tuple[Tree, ...] = ()
    parent: Tree | None = None


@dataclass(frozen=True)
class Shapes:
    by_name: Mapping[str, Point] = field(default_factory=dict)
    chosen: frozenset[Point] = frozenset()
    ranks: Mapping[Point, int] = field(default_factory=dict)
    circles: tuple[Circle, ...] = ()


Shape = Point | Circle | Empty


def through_json(codec: Codec[Any], value: Any) -> Any:
    return codec.loads(codec.dumps(value))


class TestForms:
    """The JSON form of each kind of type."""

    @pytest.mark.parametrize(
        ("kind", "value", "data"),
        [
            (int, 2**70, 2**70),
            (float, 0.1, 0.1),
            (str, "ü", "ü"),
            (bool, True, True),
            (type(None), None, None),
            (Literal["a", "b"], "a", "a"),
            (int | None, None, None),
            (int | str | None, "7", "7"),
            (Optional[float], 2.5, 2.5),  # noqa: UP045
        ],
    )
    def test_none_numbers_text_and_booleans_are_themselves(self, kind: Any, value: Any, data: Any) -> None:
        assert Codec(kind).encode(value) == data
        assert through_json(Codec(kind), value) == value

    def test_bytes_are_base64_text(self) -> None:
        assert Codec(bytes).encode(b"\0\xff") == "AP8="
        assert through_json(Codec(bytes), b"\0\xff") == b"\0\xff"

    @pytest.mark.parametrize(
        ("kind", "value", "data"),
        [
            (tuple[int, ...], (1, 2), [1, 2]),
            (tuple[int, str], (1, "a"), [1, "a"]),
            (tuple[()], (), []),
            (list[int], [1, 2], [1, 2]),
            (tuple[bytes, ...], (b"\0",), ["AA=="]),
            (tuple[int, bytes], (1, b"\0"), [1, "AA=="]),
            (list[tuple[int, ...]], [(1,), ()], [[1], []]),
        ],
    )
    def test_tuples_and_lists_are_arrays(self, kind: Any, value: Any, data: Any) -> None:
        assert Codec(kind).encode(value) == data
        assert through_json(Codec(kind), value) == value

    @pytest.mark.parametrize(
        ("kind", "value", "data"),
        [
            (frozenset[str], frozenset({"b", "a"}), ["a", "b"]),
            (set[int], {2, 10}, [10, 2]),  # by their text
            (frozenset[frozenset[int]], frozenset({frozenset({2, 1}), frozenset()}), [[1, 2], []]),
            (frozenset[Pair], frozenset({Pair(2, "a"), Pair(1, "b")}), [[1, "b"], [2, "a"]]),
        ],
    )
    def test_a_set_is_an_array_in_the_order_of_its_elements_text(self, kind: Any, value: Any, data: Any) -> None:
        assert Codec(kind).encode(value) == data
        assert through_json(Codec(kind), value) == value

    @pytest.mark.parametrize(
        ("kind", "value", "data"),
        [
            (Mapping[str, int], {"b": 1, "a": 2}, {"a": 2, "b": 1}),
            (dict[str, bytes], {"a": b"\0"}, {"a": "AA=="}),
            (Mapping[int, str], {-1: "a", 10: "b"}, {"-1": "a", "10": "b"}),
        ],
    )
    def test_a_mapping_with_text_or_integer_keys_is_an_object(self, kind: Any, value: Any, data: Any) -> None:
        assert Codec(kind).encode(value) == data
        assert through_json(Codec(kind), value) == value

    @pytest.mark.parametrize(
        ("kind", "value", "data"),
        [
            (Mapping[tuple[str, str], int], {("b", "c"): 1, ("a", "z"): 2}, [[["a", "z"], 2], [["b", "c"], 1]]),
            (Mapping[Point, bytes], {Point(1): b"\0"}, [[{"x": 1}, "AA=="]]),
            (Mapping[str | None, int], {None: 1, "a": 2}, [["a", 2], [None, 1]]),
        ],
    )
    def test_any_other_mapping_is_an_array_of_pairs_in_the_order_of_the_keys_text(self, kind: Any, value: Any, data: Any) -> None:
        assert Codec(kind).encode(value) == data
        assert through_json(Codec(kind), value) == value

    def test_a_named_tuple_is_an_array_of_all_its_fields(self) -> None:
        assert Codec(Pair).encode(Pair(1)) == [1, "r"]
        assert through_json(Codec(Pair), Pair(1)) == Pair(1)
        assert type(through_json(Codec(Pair), Pair(1))) is Pair

    def test_a_dataclass_is_an_object_without_the_fields_that_have_their_default(self) -> None:
        codec = Codec[Any](Circle)
        assert codec.encode(Circle(Point(3))) == {"centre": {"x": 3}}
        assert codec.encode(Circle(Point(0, 1, ("n",)), 2.0)) == {"centre": {"x": 0, "y": 1, "names": ["n"]}, "radius": 2.0}
        assert Codec[Any](Shapes).encode(Shapes()) == {}
        assert Codec[Any](Empty).encode(Empty()) == {}
        for value in (Circle(Point(3)), Circle(Point(0, 1, ("n",)), 2.0)):
            assert through_json(codec, value) == value

    def test_a_compact_dataclass_is_an_array_without_the_fields_at_its_end_that_have_their_default(self) -> None:
        codec = Codec[Any](Circle, compact=True)
        assert codec.encode(Circle(Point(3))) == [[3]]
        assert codec.encode(Circle(Point(3, 0, ("n",)))) == [[3, 0, ["n"]]]
        assert codec.encode(Circle(Point(3, 1), 2.0)) == [[3, 1], 2.0]
        assert Codec[Any](Empty, compact=True).encode(Empty()) == []
        assert Codec[Any](Shapes, compact=True).encode(Shapes()) == []
        for value in (Circle(Point(3)), Circle(Point(3, 0, ("n",))), Circle(Point(3, 1), 2.0)):
            assert through_json(codec, value) == value

    def test_default_values_of_decoded_mappings_are_not_shared(self) -> None:
        assert Codec[Any](Shapes).decode({}).by_name is not Codec[Any](Shapes).decode({}).by_name

    def test_a_union_of_classes_is_the_name_of_the_class_and_the_value(self) -> None:
        codec = Codec[Any](tuple[Shape, ...])
        shapes = (Point(1), Circle(Point(2)), Empty())
        assert codec.encode(shapes) == [["Point", {"x": 1}], ["Circle", {"centre": {"x": 2}}], ["Empty", {}]]
        assert through_json(codec, shapes) == shapes
        assert Codec[Any](Point | Pair | None).encode(Pair(1)) == ["Pair", [1, "r"]]
        assert through_json(Codec(Point | Pair | None), None) is None

    def test_an_optional_value_is_null_or_the_value(self) -> None:
        codec = Codec[Any](Point | None)
        assert codec.encode(None) is None
        assert codec.encode(Point(1)) == {"x": 1}
        assert through_json(codec, None) is None
        assert through_json(codec, Point(1)) == Point(1)

    @pytest.mark.parametrize("compact", [False, True])
    def test_types_may_refer_to_themselves(self, compact: bool) -> None:
        tree = Tree("a", (Tree("b", parent=Tree("c")), Tree("d", (Tree("e"),))))
        assert through_json(Codec(Tree, compact=compact), tree) == tree
        assert through_json(Codec(Tree, (Tree,), compact), tree) == tree

    @pytest.mark.parametrize("kind", [Any, object, tuple, complex, Mapping, tuple[int, ...] | frozenset[int], type[int]])
    def test_other_types_have_no_form(self, kind: Any) -> None:
        codec = Codec[Any](kind)
        for _ in range(2):
            with pytest.raises(TypeError, match="no JSON form"):
                codec.encode(())
            with pytest.raises(ValueError, match="no JSON form"):
                codec.decode([])


class TestArrays:
    """Numpy arrays: `[dtype, shape, base64 text]`."""

    def test_integers_take_as_few_bytes_as_the_largest_of_them_needs(self) -> None:
        codec = Codec[Any](NDArray[np.int64])
        assert codec.encode(np.array([1, 255])) == ["u1", [2], base64.b64encode(b"\x01\xff").decode()]
        assert [codec.encode(np.array([top]))[0] for top in (2**8, 2**16 - 1, 2**16, 2**32 - 1, 2**32)] == ["u2", "u2", "u4", "u4", "i8"]
        assert codec.encode(np.array([-1]))[0] == "i8"
        assert Codec[Any](NDArray[np.uint64]).encode(np.array([7, 2**64 - 1], np.uint64))[0] == "u8"
        assert Codec[Any](NDArray[np.uint64]).encode(np.array([7], np.uint64))[0] == "u1"

    def test_signed_integers_are_deflated_where_that_is_shorter(self) -> None:
        zeros = np.zeros(1000, np.int64)
        kind, shape, text, compression = Codec[Any](NDArray[np.int64]).encode(zeros)
        assert (kind, shape, compression) == ("u1", [1000], "zlib")
        assert zlib.decompress(base64.b64decode(text)) == bytes(1000)
        assert len(Codec[Any](NDArray[np.int64]).encode(zeros[:63])) == 3
        assert len(Codec[Any](NDArray[np.int64]).encode(np.frombuffer(random.Random(1).randbytes(512), np.int64))) == 3
        assert len(Codec[Any](NDArray[np.uint32]).encode(np.zeros(1000, np.uint32))) == 3

    @pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int64, np.uint8, np.uint32, np.uint64, np.float32, np.float64])
    @pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (0, 4), (100,)])
    def test_arrays_of_all_types_and_shapes_come_back(self, dtype: Any, shape: tuple[int, ...]) -> None:
        codec = Codec[Any](NDArray[dtype])
        array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
        decoded = through_json(codec, array)
        assert decoded.dtype == dtype
        assert decoded.shape == shape
        np.testing.assert_array_equal(decoded, array)
        decoded[...] = 0  # it is a copy that may be changed

    @given(st.lists(st.integers(-(2**63), 2**63 - 1)))
    def test_integers_come_back(self, values: list[int]) -> None:
        assert through_json(Codec(NDArray[np.int64]), np.array(values, np.int64)).tolist() == values

    @given(st.lists(st.floats(), max_size=30))
    def test_floats_come_back_bit_by_bit(self, values: list[float]) -> None:
        array = np.array(values, np.float64)
        assert through_json(Codec(NDArray[np.float64]), array).tobytes() == array.tobytes()

    def test_equal_arrays_give_equal_json_whatever_their_memory_layout(self) -> None:
        codec = Codec[Any](NDArray[np.float64])
        array = np.arange(12.0).reshape(3, 4)
        strided = np.repeat(array, 2, axis=1)[:, ::2]
        for same in (array.copy(order="F"), strided, array.astype(">f8")):
            assert codec.dumps(same) == codec.dumps(array)
            np.testing.assert_array_equal(through_json(codec, same), array)

    @pytest.mark.parametrize(
        "data",
        [
            ["i8", [1]],
            ["i8", [2], "AAAAAAAAAAA="],
            ["i8", [1], "AAAA"],
            ["i8", [1], "not base64!"],
            ["i8", [1], "AAAAAAAAAAA=", "lzma"],
            ["i8", [1], "AAAAAAAAAAA=", "zlib"],
            ["O", [1], "AAAAAAAAAAA="],
            ["U2", [1], "AAAAAAAAAAA="],
            ["i3", [1], "AAAA"],
            [8, [1], "AAAA"],
            ["i8", "x", "AAAAAAAAAAA="],
            "i8",
            7,
            None,
        ],
    )
    def test_malformed_arrays_are_refused(self, data: Any) -> None:
        with pytest.raises(ValueError, match=r".+"):
            Codec[Any](NDArray[np.int64]).decode(data)


class TestInterned:
    """Values of interned classes are written once, in tables, and referred to by number."""

    def test_each_value_is_in_its_table_once(self) -> None:
        codec = Codec[Any](tuple[Circle, ...], (Point,))
        circles = (Circle(Point(1)), Circle(Point(2), 3.0), Circle(Point(1)))
        assert codec.encode(circles) == {
            "body": [{"centre": 0}, {"centre": 1, "radius": 3.0}, {"centre": 0}],
            "tables": {"Point": [{"x": 1}, {"x": 2}]},
        }
        decoded = through_json(codec, circles)
        assert decoded == circles
        assert decoded[0].centre is decoded[2].centre

    def test_every_interned_class_has_a_table(self) -> None:
        codec = Codec[Any](Circle, (Circle, Point, Empty), compact=True)
        assert codec.encode(Circle(Point(1))) == {"body": 0, "tables": {"Circle": [[0]], "Point": [[1]], "Empty": []}}

    def test_a_value_comes_after_the_values_inside_it(self) -> None:
        codec = Codec[Any](Tree, (Tree,))
        assert codec.encode(Tree("a", (Tree("b"),))) == {"body": 1, "tables": {"Tree": [{"label": "b"}, {"label": "a", "children": [0]}]}}

    def test_documents_are_independent(self) -> None:
        codec = Codec[Any](Circle, (Point,))
        first = codec.dumps(Circle(Point(1)))
        codec.dumps(Circle(Point(2)))
        with pytest.raises(AttributeError):
            codec.encode("not a circle")
        with pytest.raises(ValueError, match="IndexError"):
            codec.decode({"body": {"centre": 7}, "tables": {"Point": []}})
        assert codec.dumps(Circle(Point(1))) == first
        assert codec.loads(first) == Circle(Point(1))

    def test_threads_may_share_a_codec(self) -> None:
        codec, wrong = Codec[Any](tuple[Circle, ...], (Point,)), []

        def work(seed: int) -> None:
            for number in range(50):
                circles = tuple(Circle(Point(seed * 1000 + number + k)) for k in range(20))
                if through_json(codec, circles) != circles:
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    @pytest.mark.parametrize(
        "data",
        [
            {"body": {"centre": 0}},
            {"tables": {"Point": []}},
            {"body": {"centre": 1}, "tables": {"Point": [{"x": 1}]}},
            {"body": {"centre": -1}, "tables": {"Point": [{"x": 1}]}},
            {"body": {"centre": "0"}, "tables": {"Point": [{"x": 1}]}},
            {"body": {"centre": False}, "tables": {"Point": [{"x": 1}]}},
            {"body": {"centre": [0]}, "tables": {"Point": [{"x": 1}]}},
            {"body": {"centre": {"x": 1}}, "tables": {"Point": []}},
            {"body": {"centre": 0}, "tables": {}},
            {"body": {"centre": 0}, "tables": []},
            {"body": {"centre": 0}, "tables": {"Point": {"x": 1}}},
            [],
            None,
        ],
    )
    def test_malformed_references_are_refused(self, data: Any) -> None:
        with pytest.raises(ValueError, match=r".+"):
            Codec[Any](Circle, (Point,)).decode(data)

    def test_a_value_that_contains_itself_is_refused(self) -> None:
        with pytest.raises(ValueError, match="RecursionError"):
            Codec[Any](Tree, (Tree,)).decode({"body": 0, "tables": {"Tree": [{"label": "a", "children": [0]}]}})


POINTS = st.builds(Point, st.integers(0, 3), st.integers(0, 2), st.lists(st.sampled_from("ab"), max_size=2).map(tuple))
CIRCLES = st.builds(Circle, POINTS, st.floats(allow_nan=False, allow_infinity=False))
SHAPES = st.builds(
    Shapes,
    st.dictionaries(st.text(max_size=2), POINTS, max_size=4),
    st.frozensets(POINTS, max_size=4),
    st.dictionaries(POINTS, st.integers(), max_size=4),
    st.lists(CIRCLES, max_size=4).map(tuple),
)
TREES = st.recursive(
    st.builds(Tree, st.sampled_from("abc")),
    lambda inner: st.builds(Tree, st.sampled_from("abc"), st.lists(inner, max_size=3).map(tuple), st.none() | inner),
    max_leaves=8,
)
VARIANTS: list[dict[str, Any]] = [
    {"interned": interned, "compact": compact} for interned in ((), (Point,), (Point, Circle)) for compact in (False, True)
]


class TestInvariants:
    """`decode(encode(x)) == x`, and equal values give equal JSON."""

    @pytest.mark.parametrize("variant", VARIANTS, ids=str)
    @given(SHAPES)
    def test_records_come_back(self, variant: dict[str, Any], shapes: Shapes) -> None:
        codec = Codec[Any](Shapes, **variant)
        assert codec.decode(codec.encode(shapes)) == shapes
        assert through_json(codec, shapes) == shapes

    @pytest.mark.parametrize("interned", [(), (Tree,)])
    @pytest.mark.parametrize("compact", [False, True])
    @given(TREES)
    def test_trees_come_back(self, interned: tuple[type, ...], compact: bool, tree: Tree) -> None:
        assert through_json(Codec(Tree, interned, compact), tree) == tree

    @given(st.lists(POINTS | CIRCLES | st.just(Empty()), max_size=5).map(tuple))
    def test_unions_come_back(self, shapes: tuple[Shape, ...]) -> None:
        assert through_json(Codec(tuple[Shape, ...]), shapes) == shapes
        assert through_json(Codec(tuple[Shape, ...], (Point,), compact=True), shapes) == shapes

    @pytest.mark.parametrize("variant", VARIANTS, ids=str)
    @given(SHAPES, st.randoms(use_true_random=False))
    def test_insertion_order_does_not_matter(self, variant: dict[str, Any], shapes: Shapes, shuffler: random.Random) -> None:
        def shuffled(items: Any) -> list[Any]:
            return shuffler.sample(list(items), len(items))

        other = Shapes(
            dict(shuffled(shapes.by_name.items())),
            frozenset(shuffled(shapes.chosen)),
            dict(shuffled(shapes.ranks.items())),
            shapes.circles,
        )
        assert other == shapes
        codec = Codec[Any](Shapes, **variant)
        assert codec.dumps(other) == codec.dumps(shapes)

    def test_the_hash_seed_does_not_matter(self) -> None:
        program = """
            from dataclasses import dataclass
            from collections.abc import Mapping
            from clash.codec import Codec

            @dataclass(frozen=True)
            class Name:
                text: str

            @dataclass(frozen=True)
            class Names:
                plain: frozenset[str]
                nested: frozenset[frozenset[str]]
                interned: frozenset[Name]
                pairs: frozenset[tuple[Name, Name]]
                ranks: Mapping[Name, Name]

            texts = [f"name {number}" for number in range(30)]
            names = [Name(text) for text in texts]
            value = Names(
                frozenset(texts),
                frozenset(frozenset(texts[k : k + 5]) for k in range(20)),
                frozenset(names),
                frozenset(zip(names, reversed(names))),
                {name: names[0] for name in frozenset(names)},
            )
            for compact in (False, True):
                print(Codec(Names, (), compact).dumps(value))
                print(Codec(Names, (Name,), compact).dumps(value))
        """
        texts = {
            subprocess.run(
                [sys.executable, "-c", textwrap.dedent(program)],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                check=True,
                text=True,
                timeout=60,
            ).stdout
            for seed in ("0", "1", "2")
        }
        assert len(texts) == 1

    def test_text_is_canonical(self) -> None:
        assert dump({"b": [1, 2.5], "a": "ü"}) == '{"a":"ü","b":[1,2.5]}'
        with pytest.raises(ValueError, match="JSON compliant"):
            Codec(float).dumps(float("nan"))


class TestMalformedDocuments:
    """What is not of the type gives a ValueError; leaves are trusted."""

    @pytest.mark.parametrize(
        ("kind", "data"),
        [
            (Point, {}),
            (Point, {"x": 1, "unknown": 2}),
            (Point, {"x": 1, "names": 7}),
            (Point, {"x": 1, "names": "text"}),
            (Point, [1]),
            (Point, "x"),
            (Point, None),
            (Circle, {"centre": None}),
            (Circle, {"centre": {"y": 1}}),
            (Pair, [1]),
            (Pair, [1, "a", 2]),
            (Pair, "ab"),
            (Pair, {"left": 1, "right": "a"}),
            (tuple[int, str], [1]),
            (tuple[int, str], [1, "a", "b"]),
            (tuple[int, bytes], [1]),
            (tuple[int, bytes], [1, "AA==", 2]),
            (tuple[int, ...], "12"),
            (tuple[int, ...], {"1": 2}),
            (tuple[int, ...], 1),
            (tuple[int, ...], None),
            (list[bytes], "AA=="),
            (frozenset[str], "ab"),
            (frozenset[str], {"a": 1}),
            (frozenset[tuple[int, ...]], [1]),
            (Mapping[str, int], [["a", 1]]),
            (Mapping[str, int], "a"),
            (Mapping[str, bytes], {"a": 1}),
            (Mapping[int, int], {"a": 1}),
            (Mapping[int, int], [[1, 1]]),
            (Mapping[tuple[str, str], int], {"ab": 1}),
            (Mapping[tuple[str, str], int], [[["a", "b"]]]),
            (Mapping[tuple[str, str], int], [["ab", 1]]),
            (bytes, "not base64!"),
            (bytes, "A"),
            (bytes, 1),
            (Shape, ["Square", {}]),
            (Shape, ["Point"]),
            (Shape, ["Point", {"x": 1}, 2]),
            (Shape, {"x": 1}),
            (Shape, "Point"),
            (Shape, None),
            (Shape, [["Point"], {}]),
        ],
    )
    def test_they_are_refused(self, kind: Any, data: Any) -> None:
        with pytest.raises(ValueError, match=r".+"):
            Codec[Any](kind).decode(data)

    @pytest.mark.parametrize("data", [[], [1, 2, ["a"], 4], {"x": 1}, "x", 1, None, [1, 2, "text"]])
    def test_compact_ones_are_refused(self, data: Any) -> None:
        with pytest.raises(ValueError, match=r".+"):
            Codec[Any](Point, compact=True).decode(data)

    @pytest.mark.parametrize("text", ["", "{", '{"x":1', '{"x":1}}', "NaN", '{"x":Infinity}', b"\xff", "[" * 100_000])
    def test_text_that_is_not_json_is_refused(self, text: str | bytes) -> None:
        with pytest.raises(ValueError, match=r".+"):
            Codec[Any](Point).loads(text)

    @pytest.mark.parametrize(
        ("kind", "value"),
        [(int, "one"), (int, True), (int, 1.0), (str, 1), (bool, 1), (float, "1"), (int | None, "x"), (Literal["a", 1], True)],
    )
    def test_leaves_are_checked(self, kind: Any, value: Any) -> None:
        with pytest.raises(ValueError, match="is not"):
            Codec[Any](kind).decode(value)
        with pytest.raises(ValueError, match="is not"):
            Codec[Any](tuple[kind, ...]).decode([value])

    def test_a_little_data_does_not_fill_the_memory(self) -> None:
        codec = Codec[Any](np.ndarray[Any, np.dtype[np.int64]])
        bomb = base64.b64encode(zlib.compress(bytes(1 << 24), 9)).decode()
        for shape in ([1], [1 << 40], [-1], [1 << 20, 1 << 20], ["1"], {}):
            with pytest.raises(ValueError):  # noqa: PT011
                codec.decode(["i8", shape, bomb, "zlib"])

    @given(SHAPES, st.data())
    def test_a_document_with_one_part_replaced_is_refused_or_read(self, shapes: Shapes, data: st.DataObject) -> None:
        """Whatever is damaged, no other exception escapes."""
        codec = Codec[Any](Shapes, (Point,), data.draw(st.booleans()))
        document = codec.encode(shapes)
        parts: list[tuple[Any, Any]] = []

        def walk(part: Any) -> None:
            keys = part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
            for key in keys:
                parts.append((part, key))
                walk(part[key])

        document = json.loads(dump(document))
        walk(document)
        container, key = data.draw(st.sampled_from(parts))
        container[key] = data.draw(st.sampled_from([None, True, -1, 99, 1.5, "text", [], {}, [[]], {"x": []}, [None, None]]))
        with suppress(ValueError):
            codec.decode(document)


def test_threads_may_use_a_codec_for_the_first_time_at_once() -> None:
    """A type that refers to itself is in the making for a while; another thread must not use what is not there yet."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            codec: Codec[Expr] = Codec(Expr)
            expression = Call("+", (Lit(1, "int"), Call("-", (Lit(2, "int"),), "int")), "int")
            together = Barrier(4)

            def encode(codec: Codec[Expr] = codec, expression: Expr = expression, together: Barrier = together) -> str:
                together.wait()
                return codec.dumps(expression)

            with ThreadPoolExecutor(4) as pool:
                texts = [run.result() for run in [pool.submit(encode) for _ in range(4)]]
            assert len(set(texts)) == 1
            assert codec.loads(texts[0]) == expression
    finally:
        sys.setswitchinterval(interval)


def test_fields_that_a_named_tuple_got_later_are_left_out_at_their_default() -> None:
    before, now = Codec[Any](Pair), Codec[Any](Grown)
    for value, data in (
        (Grown(1), [1, "r"]),
        (Grown(1, "x", 5), [1, "x", 5]),
        (Grown(1, "x", 0, (7,)), [1, "x", 0, [7]]),
    ):
        assert now.encode(value) == data
        assert now.decode(data) == value
    assert before.decode(now.encode(Grown(1))) == Pair(1)
    for wrong in ([1], [1, "r", 0, [], 3], [1, "r", "x"]):
        with pytest.raises(ValueError, match="is not"):
            now.decode(wrong)
