"""Statistics: the constructor checks every number, and saved statistics can be loaded."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clash.errors import OptionError
from clash.model.statistics import Statistics

NAMES = st.text("abcRST", min_size=1, max_size=3)
NUMBERS = st.floats(0, 1e12)
SHARES = st.floats(0, 1)
STATISTICS = st.builds(
    Statistics,
    rates=st.dictionaries(NAMES, NUMBERS),
    selectivities=st.dictionaries(st.sampled_from(["R.a = S.a", "S.b=T.b", "(R.v > 1)"]), SHARES),
    default_rate=NUMBERS,
    default_selectivity=SHARES,
    sizes=st.dictionaries(st.lists(NAMES, min_size=2, max_size=4).map(tuple), NUMBERS),
)


@given(STATISTICS)
def test_json_round_trip(statistics: Statistics) -> None:
    assert Statistics.from_json(json.loads(json.dumps(statistics.to_json()))) == statistics


def test_file_round_trip(tmp_path: Path) -> None:
    statistics = Statistics(rates={"R": 100}, selectivities={"R.a = S.a": 0.01}, sizes={("T", "S"): 150}, default_rate=5)
    statistics.save(tmp_path / "stats.json")
    assert Statistics.load(tmp_path / "stats.json") == Statistics.load(str(tmp_path / "stats.json")) == statistics


def test_look_ups() -> None:
    statistics = Statistics(rates={"R": 7}, selectivities={"S.a=R.a": 0.5}, default_rate=3, default_selectivity=0.25)
    assert (statistics.rate("R"), statistics.rate("S")) == (7, 3)
    assert statistics.equality("R.a", "S.a") == statistics.equality("S.a", "R.a") == 0.5
    assert statistics.equality("R.a", "S.b") == 0.25


def test_sizes_are_by_set_of_streams() -> None:
    assert Statistics(sizes={("T", "S"): 150}).sizes == {("S", "T"): 150}
    assert Statistics(sizes={("R", "R"): 9}).sizes == {("R", "R"): 9}


@pytest.mark.parametrize("value", [-1, -1e-9, math.nan, math.inf, -math.inf, "1", None, True, [1], 1j])
@pytest.mark.parametrize("field", ["rates", "selectivities", "sizes", "default_rate", "default_selectivity"])
def test_invalid_numbers(field: str, value: object) -> None:
    key: Any = ("S", "T") if field == "sizes" else "R.a = S.a"
    with pytest.raises(OptionError) as error:
        Statistics(**{field: value if field.startswith("default") else {key: value}})  # type: ignore[arg-type]
    assert "must be a number from 0 to 1e+15" in error.value.what
    assert repr(value) in error.value.detail
    assert error.value.hint


@pytest.mark.parametrize("fields", [{"default_selectivity": 1.1}, {"selectivities": {"R.a = S.a": 2, "R.b = S.b": 0.1}}])
def test_selectivities_above_one(fields: dict[str, Any]) -> None:
    with pytest.raises(OptionError) as error:
        Statistics(**fields)
    assert error.value.what == "a selectivity is above 1"
    assert error.value.detail in ("default_selectivity: 1.1", "R.a = S.a: 2")


@pytest.mark.parametrize("streams", [("S",), "S", ()])
def test_sizes_of_one_stream(streams: Any) -> None:
    with pytest.raises(OptionError) as error:
        Statistics(sizes={streams: 10})
    assert error.value.what == "a known size needs two or more streams"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "5", '"x"', "null", '{"rate": {}}', '{"rates": 5}', '{"rates": {"R": -1}}', '{"rates": {"R": NaN}}',
     '{"selectivities": []}', '{"sizes": 5}', '{"sizes": [[["S", "T"]]]}', '{"sizes": [["S", 5]]}', '{"sizes": {"S": 1}}',
     '{"sizes": [[[1, 2], 5]]}', '{"sizes": [[null, 5]]}', '{"default_rate": "many"}'],
)  # fmt: skip
def test_bad_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "stats.json"
    path.write_text(text)
    with pytest.raises(OptionError) as error:
        Statistics.load(path)
    assert error.value.what
    assert error.value.hint


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none.json", tmp_path, tmp_path / "bytes"):
        with pytest.raises(OptionError) as error:
            Statistics.load(path)
        assert error.value.what in ("cannot read the statistics", "the statistics are not JSON")
        assert str(path) in error.value.detail


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "stats.json", None):
        with pytest.raises(OptionError, match="cannot write the statistics") as caught:
            Statistics().save(path)  # type: ignore[arg-type]
        assert str(path) in caught.value.detail
