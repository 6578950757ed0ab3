"""What the sources of streams are, taken from the analysed plans of their DataFrames.

Invariant: sources are numbered as Spark numbers their folders in its half of the checkpoint: it keeps a map of the relations of a plan,
in the order of its leaves, so equal relations are one source. Of their options only those that identify a source are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError

from clash.coordinator.checkpoint.source_shape import Shapes, SourceShape

_RELATION, _RELATION_V2 = "StreamingRelation", "StreamingRelationV2"
_KAFKA = "kafka"
_SUBSCRIPTIONS = ("subscribe", "subscribepattern", "assign")
_SERVERS, _PATH = "kafka.bootstrap.servers", "path"
_OPTIONS = (*_SUBSCRIPTIONS, _SERVERS, _PATH)
_PASSWORD = re.compile(r"(?<=://)[^@]*:[^@]*@")  # in s3a://key:secret@bucket/path


def source_shapes(frames: Mapping[str, Any], clusters: Mapping[str, str]) -> Shapes:
    """The sources of streams, which are in the order of the checkpoint. `clusters`: by stream, the id of its Kafka cluster, if it is
    known."""
    numbers: dict[Any, int] = {}  # by relation, which Java compares
    shapes: dict[str, tuple[SourceShape, ...]] = {}
    for stream, frame in frames.items():
        found = []
        for leaf in streaming_leaves(frame):
            name = _user_name(leaf)
            number = name if name is not None else numbers.setdefault(leaf, len(numbers))
            found.append(_describe(number, _provider(leaf), _options(leaf), clusters.get(stream, "")))
        shapes[stream] = tuple(found)
    return shapes


def streaming_leaves(frame: Any) -> list[Any]:
    """The places where the plan of a DataFrame reads a streaming source, as Spark has them in its offset log."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    return [leaf for at in range(leaves.size()) if (leaf := leaves.apply(at)).isStreaming()]


def _describe(source: int | str, provider: str, options: Mapping[str, str], cluster: str) -> SourceShape:
    subscription = next((name for name in _SUBSCRIPTIONS if name in options), "") if provider == _KAFKA else ""
    topics = topics_of(subscription, options[subscription]) if subscription else ()
    location = options.get(_SERVERS if provider == _KAFKA else _PATH, "")
    location = _PASSWORD.sub("", location).removeprefix("file://").removeprefix("file:")
    return SourceShape(source, provider, subscription, topics, location, cluster)


def topics_of(subscription: str, value: str) -> tuple[str, ...]:
    """What an option of Kafka's source subscribes to.

    >>> topics_of("subscribe", "b, a")
    ('a', 'b')
    >>> topics_of("assign", '{"a": [1, 0]}')
    ('a-0', 'a-1')
    """
    if subscription == "subscribe":
        return tuple(sorted({topic.strip() for topic in value.split(",")} - {""}))
    if subscription == "assign":
        try:
            return tuple(sorted(f"{topic}-{partition}" for topic, partitions in json.loads(value).items() for partition in partitions))
        except (ValueError, AttributeError, TypeError):
            return (value,)  # Spark refuses it
    return (value,)


def _provider(leaf: Any) -> str:
    """The short name of a format, also where the program names its class; of any other relation its class."""
    kind = leaf.getClass().getSimpleName()
    if kind == _RELATION:
        name, make = str(leaf.dataSource().className()), leaf.dataSource().providingInstance
    elif kind == _RELATION_V2:
        name, make = str(leaf.sourceName()), leaf.source().get
    else:
        return str(kind)
    if "." in name:
        try:
            return str(make().shortName()).lower()
        except Py4JError:  # it has none, or it is a table
            return name
    return name.lower()


def _options(leaf: Any) -> dict[str, str]:
    """By name in lower case, those that identify a source."""
    kind = leaf.getClass().getSimpleName()
    if kind == _RELATION_V2:
        options = leaf.extraOptions()
        return {name: str(value) for name in _OPTIONS if (value := options.get(name)) is not None}
    if kind != _RELATION:
        return {}
    options = leaf.dataSource().options()
    names = options.keys().toSeq()
    keys = [str(names.apply(at)) for at in range(names.size())]
    return {key.lower(): str(options.apply(key)) for key in keys if key.lower() in _OPTIONS}


def _user_name(leaf: Any) -> str | None:
    """The name that a user gave the source; Spark 4.1 has none."""
    try:
        name = leaf.sourceIdentifyingName()
    except Py4JError:
        return None
    return str(name.name()) if name.getClass().getSimpleName() == "UserProvided" else None
