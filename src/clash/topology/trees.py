"""Probe orders of one origin, merged by common prefix into probe trees.

Invariant: two steps are one node iff their parents are, and store, layout, bounds and the sub-join bound after the step are equal.
The sub-join is the whole sharing key: relations, classes, filters, residuals and windows. An order that ends is a mark on its
last node (`emits`, `feeds`), so an order that is a prefix of another, as a MIR's often is, costs no node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clash.model.layout import ALL, Layout
from clash.model.query import Query, SubJoin
from clash.model.relation import Relation
from clash.plan.logical import ProbeOrder, StoreKey
from clash.plan.topology import UNBOUNDED, Bounds
from clash.topology.entry_placement import entry_layout
from clash.topology.equality import Streams


@dataclass(eq=False, slots=True)
class Node:
    """`store`, `layout` and `adds` are None at a root. `home`: the layout of the origin's own store beside whose copy a tuple
    enters the tree; it matters where the first step is into a replicated store, which may be probed anywhere. `replay` at a root: the tree
    is for stored tuples, that arrived at `since` or later, and fills this store."""

    parent: Node | None
    origin: Relation
    owner: str | None
    bound: SubJoin
    store: StoreKey | None = None
    layout: Layout | None = None
    adds: SubJoin | None = None
    home: Layout | None = None
    bounds: Bounds = UNBOUNDED
    backfills: StoreKey | None = None
    since: int = 0
    children: dict[tuple[StoreKey, Layout, SubJoin, Layout | None, Bounds], Node] = field(default_factory=dict)
    emits: list[str] = field(default_factory=list)
    feeds: list[StoreKey] = field(default_factory=list)

    def walk(self) -> Iterator[Node]:
        """This node and all below it, parents first."""
        yield self
        for child in self.children.values():
            yield from child.walk()


class Branch(NamedTuple):
    """An order, and the bounds of its steps. `replay`: it is for stored tuples that are probed once more, to fill the store that it feeds
    with what was completed before the store was introduced; those from before `since` lack a column."""

    order: ProbeOrder
    bounds: tuple[Bounds, ...]
    backfills: bool = False
    since: int = 0


def plain_branches(orders: Iterable[ProbeOrder]) -> list[Branch]:
    """Orders as they are, over stores that hold all they should."""
    return [Branch(order, (UNBOUNDED,) * len(order.steps)) for order in orders]


@dataclass(frozen=True, slots=True)
class Forest:
    """`paths`: for every order as given, the nodes of its steps."""

    roots: tuple[Node, ...]
    paths: tuple[tuple[Node, ...], ...]


def merge_orders(
    queries: Iterable[Query],
    branches: Sequence[Branch],
    layouts: Mapping[StoreKey, tuple[Layout, ...]],
    streams: Streams,
) -> Forest:
    """The probe forest; its roots in the order in which the probe orders name them."""
    orders = [branch.order for branch in branches]
    joins = {query.name: query.join for query in queries}
    roots: dict[tuple[Relation, SubJoin, str | None, StoreKey | None], Node] = {}
    for branch in branches:
        order = branch.order
        root = Node(None, order.origin, _owner(order), order.start, backfills=_backfills(branch), since=branch.since)
        roots.setdefault((order.origin, order.start, _owner(order), _backfills(branch)), root)
    paths: dict[int, tuple[Node, ...]] = {}
    homes = [_home(order, _join(order, joins), layouts, streams) for order in orders]
    # an order that needs its tuples in a certain place decides first; one that does not joins it
    for i in sorted(range(len(orders)), key=lambda i: (not homes[i][1], i)):
        order, (home, needed) = orders[i], homes[i]
        node, path = roots[order.origin, order.start, _owner(order), _backfills(branches[i])], []
        if order.steps and not needed:
            first = order.steps[0]
            # but not one that every worker does for itself: nobody could answer from there
            here = (n.home for k, n in node.children.items() if k[:2] == (first.store, first.layout) and n.home != ALL)
            home = next(here, home)
        for at, step in enumerate(order.steps):
            bound = _join(order, joins).sub(node.bound.relations | step.adds.relations)
            within = branches[i].bounds[at]
            key = (step.store, step.layout, bound, home, within)
            if key not in node.children:
                node.children[key] = Node(node, order.origin, node.owner, bound, step.store, step.layout, step.adds, home, within)
            node, home = node.children[key], None
            path.append(node)
        node.emits += [name for name in order.queries if name not in node.emits]
        if order.feeds is not None and order.feeds not in node.feeds:
            node.feeds.append(order.feeds)
        paths[i] = tuple(path)
    return Forest(tuple(roots.values()), tuple(paths[i] for i in range(len(orders))))


def _join(order: ProbeOrder, joins: Mapping[str, SubJoin]) -> SubJoin:
    if order.queries:
        return joins[order.queries[0]]
    if order.feeds is None or order.feeds.join is None:
        raise AssertionError(f"{order} neither answers a query nor feeds a store")
    return order.feeds.join


def _backfills(branch: Branch) -> StoreKey | None:
    return branch.order.feeds if branch.backfills else None


def _owner(order: ProbeOrder) -> str | None:
    if order.feeds is not None:
        return order.feeds.owner
    return order.steps[0].store.owner if order.steps else None


def _home(order: ProbeOrder, join: SubJoin, layouts: Mapping[StoreKey, tuple[Layout, ...]], streams: Streams) -> tuple[Layout | None, bool]:
    if not order.steps:
        return None, True
    own = layouts.get(StoreKey(order.origin.stream, None, _owner(order)), ())
    home, needed = entry_layout(order, join, own, layouts, streams)
    return (home, needed) if order.steps[0].layout == ALL or home == ALL else (None, True)
