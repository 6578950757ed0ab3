"""The types of attributes, and the type in which each lookup compares its two sides."""

from __future__ import annotations

from clash.model.coercion import common
from clash.model.expressions import Col
from clash.model.relation import Attribute
from clash.model.types import exact, family
from clash.plan.physical import TypedKey
from clash.plan.topology import ProbeRule, Topology

_WIDEST = {"integer": "bigint", "floating": "double"}


class AttributeTypes:
    """The declared types of the attributes of a topology."""

    def __init__(self, topology: Topology) -> None:
        self.streams = {stream.name: stream for stream in topology.streams}

    def of(self, attribute: Attribute) -> str:
        kind = self.streams[attribute.relation.stream].type_of(attribute.column)
        if kind is None:
            raise AssertionError(f"{attribute} has no type")
        return kind

    def column(self, attribute: Attribute) -> Col:
        return Col(attribute.relation, attribute.column, self.of(attribute))

    def is_time(self, attribute: Attribute) -> bool:
        """Whether the attribute is the event time, which travels under a name of its own."""
        return self.streams[attribute.relation.stream].time == attribute.column


def typed_keys(types: AttributeTypes, rule: ProbeRule) -> list[TypedKey]:
    """The keys of a probe rule with the types in which they are compared, as Spark's `=` compares them."""
    return [TypedKey(key.bound, key.stored, _compared_as(types, key.bound, key.stored)) for key in rule.keys]


def _compared_as(types: AttributeTypes, bound: Attribute, stored: Attribute) -> str:
    left, right = types.of(bound), types.of(stored)
    if exact(left, right):
        return _WIDEST.get(family(left), left)
    kind = common(left, right)
    if kind is None:
        raise AssertionError(f"{bound} and {stored} cannot be compared")
    return kind
