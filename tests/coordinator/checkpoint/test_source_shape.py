"""Which sources may go on with the offsets of a checkpoint, and what the refusal of others says."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from clash.coordinator.checkpoint.source_registry import SourceRegistry
from clash.coordinator.checkpoint.source_shape import Shapes, SourceShape, refuse_other_sources, warn_about_moved_sources
from clash.errors import CheckpointError
from clash.state.storage import open_storage

ORDER = ("R", "S", "T")


def files(source: int | str, name: str = "all", provider: str = "parquet") -> SourceShape:
    return SourceShape(source, provider, location=f"/data/{name}")


def kafka(source: int, *topics: str, subscription: str = "subscribe", servers: str = "host:9092") -> SourceShape:
    return SourceShape(source, "kafka", subscription, topics, servers)


OWN: Shapes = {"R": (files(0, "R"),), "S": (files(1, "S"),), "T": (files(2, "T"),)}
SHARED: Shapes = {stream: (files(0),) for stream in ORDER}
NAMED: Shapes = {"R": (files("left"), files("right")), "S": (files("left"),)}
KAFKA: Shapes = {"R": (kafka(0, "r", "s"),), "S": (kafka(0, "r", "s"),), "T": (kafka(1, "t"),)}


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        (OWN, OWN),
        ({}, OWN),  # written by an earlier version
        ({"R": OWN["R"]}, OWN),  # S and T are new
        ({"R": OWN["R"]}, SHARED),
        (OWN, {**OWN, "T": (files(2, "T"), files(3, "more"))}),  # the new source is behind all others
        (OWN, {stream: (replace(shapes[0], location="/moved"),) for stream, shapes in OWN.items()}),
        (KAFKA, {**KAFKA, "R": (kafka(0, "r", "s", "u"),), "S": (kafka(0, "r", "s", "u"),)}),
        (KAFKA, {**KAFKA, "T": (kafka(1, "t", servers="other:9092"),)}),
        (KAFKA, {**KAFKA, "T": (replace(kafka(1, "t"), cluster="one"),)}),  # an earlier version did not record the cluster
        ({**KAFKA, "T": (replace(kafka(1, "t"), cluster="one"),)}, {**KAFKA, "T": (replace(kafka(1, "t", servers="b:1"), cluster="one"),)}),
        (NAMED, {"R": (files("right"), files("more"), files("left")), "S": (files("left"),)}),
    ],
)
def test_sources_that_go_on(recorded: Shapes, now: Shapes) -> None:
    refuse_other_sources(ORDER, recorded, now)


@pytest.mark.parametrize(
    ("stream", "recorded", "now", "details"),
    [
        ("S", OWN, SHARED, ("has read parquet from /data/S (source 1);", "parquet from /data/all (source 0, the source of R, T too)")),
        ("S", SHARED, OWN, ("(source 0, the source of R, T too);", "parquet from /data/S (source 1)")),
        ("R", OWN, {**OWN, "R": (files(0, "R", "json"),)}, ("now it is to read json",)),
        ("R", OWN, {**OWN, "R": (files(0, "R"), files(0, "R"))}, ("(source 0) and parquet",)),
        ("S", {**OWN, "S": (files(1), files(1))}, OWN, ("(source 1) and parquet",)),
        ("T", OWN, {**OWN, "T": ()}, ("now it is to read nothing",)),
        (
            "T",
            {**KAFKA, "T": (replace(kafka(1, "t"), cluster="one"),)},
            {**KAFKA, "T": (replace(kafka(1, "t"), cluster="two"),)},
            ("from host:9092 (cluster one)", "from host:9092 (cluster two)"),
        ),
        ("T", KAFKA, {**KAFKA, "T": (kafka(1, "u"),)}, ("kafka subscribe t from host:9092", "kafka subscribe u from host:9092")),
        ("R", KAFKA, {**KAFKA, "R": (kafka(0, "r"),)}, ("kafka subscribe r, s from", "to read kafka subscribe r from")),
        ("T", KAFKA, {**KAFKA, "T": (kafka(1, "t", subscription="subscribepattern"),)}, ("kafka subscribepattern t",)),
        ("R", NAMED, {**NAMED, "R": (files("left"), files("other"))}, ("(source right)", "(source other)")),
        ("R", OWN, {**OWN, "R": (files("left"),)}, ("(source 0)", "(source left)")),
    ],
)
def test_sources_that_are_refused(stream: str, recorded: Shapes, now: Shapes, details: tuple[str, ...]) -> None:
    with pytest.raises(CheckpointError, match="the sources of a stream are not those of the checkpoint") as refused:
        refuse_other_sources(ORDER, recorded, now)
    assert refused.value.detail.startswith(f"stream {stream} has read ")
    assert all(detail in refused.value.detail for detail in details), refused.value.detail
    assert "empty checkpoint" in refused.value.hint


def test_a_source_that_has_moved_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    now = {**OWN, "R": (files(0, "moved"),), "S": (kafka(0, "r", servers="new:9092"),)}
    with caplog.at_level(logging.WARNING, "clash"):
        warn_about_moved_sources(ORDER, {**OWN, "S": (kafka(0, "r"),)}, now)
    assert len(caplog.messages) == 2
    assert "from /data/R to /data/moved" in caplog.messages[0]
    assert "fileNameOnly" in caplog.messages[0]
    assert "from host:9092 to new:9092" in caplog.messages[1]


def test_the_record_in_a_checkpoint() -> None:
    storage = open_storage("memory:shapes")
    registry = SourceRegistry(storage, "UTC", ORDER)
    registry.write()
    before = bytes(storage.read("job.json"))
    assert b"shapes" not in before
    for shapes in (KAFKA, NAMED):
        registry.record_shapes(shapes)
        assert SourceRegistry(storage, "UTC").shapes == shapes
    registry.extend(["U"])
    assert SourceRegistry(storage, "UTC").shapes == NAMED
