"""Probe orders of one origin, merged by common prefix into probe trees.

Invariant: two steps are one node iff their parents are one node, and store, layout, bounds and the sub-join bound after the step are
equal. The sub-join is the whole sharing key: relations, classes, filters, residuals and windows. The end of an order is recorded on its
last node (`emits`, `feeds`), so an order that is a prefix of another, as that of a MIR often is, needs no node of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clash.model.layout import ALL, Layout
from clash.model.query import Query, SubJoin
from clash.model.relation import Relation
from clash.plan.logical import ProbeOrder, StoreKey
from clash.plan.topology import UNBOUNDED, Bounds
from clash.topology.entry_placement import EntryLayout, choose_entry_layout
from clash.topology.equality import Streams
from clash.topology.partitioning import Layouts


class ChildKey(NamedTuple):
    """What the steps that share a node have in common, beside the parent."""

    store: StoreKey
    layout: Layout
    bound: SubJoin
    entry_layout: Layout | None
    bounds: Bounds


@dataclass(eq=False, slots=True)
class Node:
    """A step of a probe tree, or its root: the tuples of the origin before any step."""

    parent: Node | None
    """None at a root."""
    origin: Relation
    owner: str | None
    """The query whose stores the tree probes, under the strategy `independent`."""
    bound: SubJoin
    """What has been joined after the step; the origin alone at a root."""
    store: StoreKey | None = None
    """The store that is probed; None at a root."""
    layout: Layout | None = None
    """The layout of the store that is probed; None at a root."""
    adds: SubJoin | None = None
    """What the store adds; None at a root."""
    entry_layout: Layout | None = None
    """At a first step: the layout of the origin's own store with whose copy the tuples travel, where that decides their location: the step
    probes a replicated store, or the tuples are on every worker. Otherwise None."""
    bounds: Bounds = UNBOUNDED
    """Which stored rows the step may see."""
    backfills: StoreKey | None = None
    """At a root: the intermediate store that the tree fills from stored tuples; None where the tree is for arriving tuples."""
    since: int = 0
    """At a root that backfills: only tuples that arrived here or later."""
    children: dict[ChildKey, Node] = field(default_factory=dict)
    emits: list[str] = field(default_factory=list)
    """The queries that the results of the step answer, or of whose results they are a superset."""
    feeds: list[StoreKey] = field(default_factory=list)
    """The intermediate stores that the results of the step fill."""

    def walk(self) -> Iterator[Node]:
        """This node and all below it, parents first."""
        yield self
        for child in self.children.values():
            yield from child.walk()

    def __str__(self) -> str:
        """The path to the node, as plans write probe orders."""
        if self.parent is None:
            return str(self.origin) if self.backfills is None else f"stored {self.origin}"
        return f"{self.parent} » {self.store}[{self.layout}]"


class Branch(NamedTuple):
    """A probe order with bounds on the stored rows that each step may see."""

    order: ProbeOrder
    bounds: tuple[Bounds, ...]
    """One per step of the order."""
    backfills: bool = False
    """Whether stored tuples follow the order, once more, to fill the store that it feeds with the rows that were completed before the store
    was introduced."""
    since: int = 0
    """In a backfill, only tuples that arrived here or later: earlier ones lack a column."""


def plain_branches(orders: Iterable[ProbeOrder]) -> list[Branch]:
    """Each order as one branch without bounds, for stores that have all their rows."""
    return [Branch(order, (UNBOUNDED,) * len(order.steps)) for order in orders]


@dataclass(frozen=True, slots=True)
class Forest:
    """The probe trees of a plan."""

    roots: tuple[Node, ...]
    """In the order in which the branches name them."""
    paths: tuple[tuple[Node, ...], ...]
    """For each branch, in the given order, the nodes of its steps."""


class _RootKey(NamedTuple):
    """What the orders of one tree have in common."""

    origin: Relation
    start: SubJoin
    owner: str | None
    backfills: StoreKey | None


def merge_orders(queries: Iterable[Query], branches: Sequence[Branch], layouts: Layouts, streams: Streams) -> Forest:
    """The probe trees of all branches."""
    joins = {query.name: query.join for query in queries}
    roots: dict[_RootKey, Node] = {}
    for branch in branches:
        key = _root_key(branch)
        roots.setdefault(key, Node(None, key.origin, key.owner, key.start, backfills=key.backfills, since=branch.since))
    entries = [_entry_layout(branch.order, _join(branch.order, joins), layouts, streams) for branch in branches]
    paths: dict[int, tuple[Node, ...]] = {}
    # Orders that require their entry layout come first, so that the others can share the first steps of these.
    for i in sorted(range(len(branches)), key=lambda i: (not entries[i].required, i)):
        root = roots[_root_key(branches[i])]
        entry = _shared_entry_layout(root, branches[i].order, entries[i])
        paths[i] = _add_branch(root, branches[i], _join(branches[i].order, joins), entry)
    return Forest(tuple(roots.values()), tuple(paths[i] for i in range(len(branches))))


def _add_branch(root: Node, branch: Branch, join: SubJoin, entry_layout: Layout | None) -> tuple[Node, ...]:
    """Adds the steps of a branch to its tree, where they are not part of it yet; the nodes of the steps."""
    order, node, path = branch.order, root, []
    for step, bounds in zip(order.steps, branch.bounds, strict=True):
        bound = join.sub(node.bound.relations | step.adds.relations)
        key = ChildKey(step.store, step.layout, bound, entry_layout if node is root else None, bounds)
        if key not in node.children:
            node.children[key] = Node(
                node, order.origin, node.owner, bound, step.store, step.layout, step.adds, key.entry_layout, key.bounds
            )
        node = node.children[key]
        path.append(node)
    node.emits += [name for name in order.queries if name not in node.emits]
    if order.feeds is not None and order.feeds not in node.feeds:
        node.feeds.append(order.feeds)
    return tuple(path)


def _shared_entry_layout(root: Node, order: ProbeOrder, entry: EntryLayout) -> Layout | None:
    """The entry layout of an order in the tree so far: where it requires none, that of a first step that it can share.

    A step that every worker performs for itself is not shared: its results would be answered by every worker.
    """
    if entry.required or not order.steps:
        return entry.layout
    first = order.steps[0]
    shared = (key.entry_layout for key in root.children if (key.store, key.layout) == (first.store, first.layout))
    return next((layout for layout in shared if layout != ALL), entry.layout)


def _entry_layout(order: ProbeOrder, join: SubJoin, layouts: Layouts, streams: Streams) -> EntryLayout:
    """The entry layout as part of the sharing key: None where the first step decides the location by itself."""
    if not order.steps:
        return EntryLayout(None, required=True)
    origin_layouts = layouts.get(StoreKey(order.origin.stream, None, _owner(order)), ())
    entry = choose_entry_layout(order, join, origin_layouts, layouts, streams)
    return entry if order.steps[0].layout == ALL or entry.layout == ALL else EntryLayout(None, required=True)


def _join(order: ProbeOrder, joins: dict[str, SubJoin]) -> SubJoin:
    """The join that the order completes: that of its queries, or of the store that it feeds."""
    if order.hull is not None:
        return order.hull
    if order.queries:
        return joins[order.queries[0]]
    if order.feeds is None or order.feeds.join is None:
        raise AssertionError(f"{order} neither answers a query nor feeds a store")
    return order.feeds.join


def _root_key(branch: Branch) -> _RootKey:
    order = branch.order
    return _RootKey(order.origin, order.start, _owner(order), order.feeds if branch.backfills else None)


def _owner(order: ProbeOrder) -> str | None:
    if order.feeds is not None:
        return order.feeds.owner
    return order.steps[0].store.owner if order.steps else None
