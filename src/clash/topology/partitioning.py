"""The attribute by whose hash a layout partitions the rows of a store."""

from __future__ import annotations

from collections.abc import Mapping

from clash.model.layout import Layout
from clash.model.query import SubJoin
from clash.model.relation import Attribute
from clash.plan.logical import StoreKey

Layouts = Mapping[StoreKey, tuple[Layout, ...]]


def partition_attribute(layout: Layout, join: SubJoin) -> Attribute | None:
    """The attribute of the stored `join` by which the layout hashes; None where it hashes by arrival, or does not hash.

    A layout of a base store names only a column: its relation is the one of `join`, which has the role that the step gives the tuples.
    """
    if layout.kind != "hash" or layout.column is None:
        return None
    return Attribute(layout.relation if layout.relation is not None else min(join.relations), layout.column)
