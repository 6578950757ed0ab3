"""What keeps a query expensive: its dearest parts and who shares them, broadcasts, intermediate results that are not kept, and steps of
other queries that it nearly shares.

Everything is read off the plan, except what the query costs alone and what the plan would cost without it: these the caller plans.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from clash.explain import wording
from clash.explain.shares import Shares, share_costs
from clash.model.durations import show_duration
from clash.model.expression_text import expression_text
from clash.model.layout import Layout
from clash.model.query import Query, SubJoin, query_of
from clash.model.relation import Relation
from clash.plan.logical import LogicalPlan, ProbeOrder, Step
from clash.planner.cardinalities import Sizes
from clash.planner.cost_model import CostModel
from clash.planner.lattice import JoinGraph
from clash.topology.trees import Node

_MOST = 8  # parts of a kind that are shown
_HASH = Layout("hash")
_MAX_CANDIDATES = 500  # connected sub-joins that are looked at as intermediate results


@dataclass(frozen=True)
class Part:
    """A step, a store, the feeding of a store, or the checks of rows of a weaker join."""

    what: str
    cost: float
    share: float
    """What the query bears of it."""
    users: tuple[str, ...]


@dataclass(frozen=True)
class Broadcast:
    """A step whose tuples go to every worker, because they do not determine the key of the store's layout."""

    what: str
    cost: float
    places: int
    instead: tuple[str, ...]
    """The layouts under which each tuple would go to one worker."""
    served: float
    """The cost of the steps that the layout of the store serves without a broadcast."""


@dataclass(frozen=True)
class NotKept:
    """A sub-join of the query that might be kept as an intermediate result."""

    what: str
    rows: float
    keeping: float
    """What its store costs at least, per window: sending, inserting and keeping its rows. Feeding it may need further probes."""
    saves: float
    """What it can save at most: the steps that it replaces, of all queries, except the cheapest of each probe order."""


@dataclass(frozen=True)
class NearlyShared:
    """A step that another query has, too, but for some predicates or windows."""

    what: str
    cost: float
    query: str
    """The other query."""
    differences: tuple[str, ...]


@dataclass(frozen=True)
class Why:
    query: str
    share: float
    in_full: float
    alone: float
    """The cost of a plan for the query alone."""
    marginal: float
    """What the plan costs less without the query."""
    total: float
    """The cost of the plan."""
    mirs: bool
    """Whether intermediate results might be kept."""
    parts: tuple[Part, ...]
    """The dearest parts first."""
    broadcasts: tuple[Broadcast, ...]
    not_kept: tuple[NotKept, ...]
    nearly_shared: tuple[NearlyShared, ...]


def explain_why(plan: LogicalPlan, query: str, alone: float, without: float) -> Why:
    """`alone`: the cost of a plan for the query alone; `without`: that of a plan for all others."""
    shares = share_costs(plan)
    branches = [branch for branch in plan.queries if query_of(branch.name) == query]
    names = {branch.name for branch in branches}
    steps = _steps(plan, shares)
    return Why(
        query,
        share=sum(shares.own[name] for name in names),
        in_full=sum(shares.full[name] for name in names),
        alone=alone,
        marginal=plan.cost - without,
        total=plan.cost,
        mirs=plan.request.mirs,
        parts=_parts(plan, shares, steps, names),
        broadcasts=_broadcasts(plan, shares, steps, names),
        not_kept=_not_kept(plan, steps, branches),
        nearly_shared=_nearly_shared(shares, steps, names),
    )


@dataclass(frozen=True)
class _PlacedStep:
    """A step of the probe forest, as some order has it."""

    node: Node
    step: Step
    text: str
    order: ProbeOrder


def _steps(plan: LogicalPlan, shares: Shares) -> list[_PlacedStep]:
    """Every step of the plan once."""
    found: dict[Node, _PlacedStep] = {}
    for order, nodes in zip(plan.probe_orders, shares.forest.paths, strict=True):
        for i, (step, node) in enumerate(zip(order.steps, nodes, strict=True)):
            found.setdefault(node, _PlacedStep(node, step, wording.path(order, plan.workers, i + 1), order))
    return list(found.values())


def _parts(plan: LogicalPlan, shares: Shares, steps: Iterable[_PlacedStep], names: set[str]) -> tuple[Part, ...]:
    costs = [(placed.text, placed.step.cost, shares.users[placed.node]) for placed in steps]
    for order in plan.probe_orders:
        if order.feeds is not None:
            costs.append((f"{order} into {wording.store_name(order.feeds)}", order.feed_cost, shares.store_users[order.feeds]))
        if order.hull is not None:
            costs.append((f"checks of {order}", order.feed_cost, order.queries))
    for store in plan.stores:
        layouts = "".join(f"[{layout}]" for layout in store.layouts)
        costs.append((f"store {wording.store_name(store.key)}{layouts}", store.cost, shares.store_users[store.key]))
    costs.append((wording.plural(plan.rounds, "round"), shares.rounds, tuple(query.name for query in plan.queries)))
    used = [Part(what, cost, cost * _share(users, names), users) for what, cost, users in costs if cost and names & set(users)]
    return tuple(sorted(used, key=lambda part: (-part.share, part.what))[:_MOST])


def _share(users: tuple[str, ...], names: set[str]) -> float:
    return len(names & set(users)) / len(users)


def _broadcasts(plan: LogicalPlan, shares: Shares, steps: list[_PlacedStep], names: set[str]) -> tuple[Broadcast, ...]:
    found = []
    for placed in steps:
        step = placed.step
        if step.places == 1 or step.layout.kind != "hash" or not names & set(shares.users[placed.node]):
            continue
        known = placed.node.bound.relations - step.adds.relations
        keys = {
            str(member.column) if len(step.adds.relations) == 1 else str(member)
            for equal in placed.node.bound.classes
            if any(member.relation in known for member in equal)
            for member in equal
            if member.relation in step.adds.relations
        }
        same = [s.step for s in steps if (s.step.store, s.step.layout, s.step.places) == (step.store, step.layout, 1)]
        instead = tuple(f"{wording.store_name(step.store)}[{key}]" for key in sorted(keys))
        found.append(Broadcast(placed.text, step.cost, step.places, instead, sum(s.cost for s in same)))
    return tuple(sorted(found, key=lambda broadcast: -broadcast.cost)[:_MOST])


def _not_kept(plan: LogicalPlan, steps: list[_PlacedStep], branches: list[Query]) -> tuple[NotKept, ...]:
    """Those first that are the least too dear."""
    model = CostModel(plan.request.cost, plan.workers, plan.request.layouts)
    sizes = Sizes(plan.request.statistics, dict(plan.streams))
    kept = {store.key.join for store in plan.stores}
    found: dict[SubJoin, NotKept] = {}
    for branch in branches:
        graph = JoinGraph(branch)
        for mask in graph.connected(_MAX_CANDIDATES)[:_MAX_CANDIDATES]:
            join = branch.join.sub(graph.members(mask))
            if len(join.relations) == 1 or mask == graph.full or mask & graph.tables or join in kept or join in found:
                continue
            rows = sizes.rows(join)
            send = model.weights.send if model.full and model.workers > 1 else 0.0
            keeping = min(model.store(layout, rows, len(join.relations), True) for layout in model.candidate_layouts([_HASH])) + rows * send
            found[join] = NotKept(f"({join})", rows, keeping, _saves(steps, join))
    useful = [candidate for candidate in found.values() if candidate.saves > 0]
    return tuple(sorted(useful, key=lambda candidate: (candidate.keeping - candidate.saves, candidate.what))[:_MOST])


def _saves(steps: Iterable[_PlacedStep], join: SubJoin) -> float:
    """Tuples from outside of the join that probe its relations one by one could probe its store instead."""
    by_order: dict[int, list[float]] = {}
    for placed in steps:
        inside = placed.step.adds.relations <= join.relations and placed.order.origin not in join.relations
        if inside and placed.node.bound.sub(placed.step.adds.relations) == join.sub(placed.step.adds.relations):
            by_order.setdefault(id(placed.order), []).append(placed.step.cost)
    return sum(sum(costs) - min(costs) for costs in by_order.values())


def _nearly_shared(shares: Shares, steps: list[_PlacedStep], names: set[str]) -> tuple[NearlyShared, ...]:
    """For each step that only this query has, the most similar one over the same streams that it does not have."""
    own = [placed for placed in steps if set(shares.users[placed.node]) <= names]
    others = [placed for placed in steps if not set(shares.users[placed.node]) & names]
    found = []
    for mine in own:
        similar = [(_differences(mine.node.bound, other.node.bound), other) for other in others if _same_streams(mine.node, other.node)]
        similar = [(differences, other) for differences, other in similar if differences]
        if similar:
            differences, nearest = min(similar, key=lambda pair: (len(pair[0]), pair[1].text))
            found.append(NearlyShared(mine.text, mine.step.cost, shares.users[nearest.node][0], differences))
    return tuple(sorted(found, key=lambda near: (len(near.differences), -near.cost, near.what))[:_MOST])


def _same_streams(mine: Node, other: Node) -> bool:
    return mine.origin == other.origin and mine.bound.relations == other.bound.relations and mine.bound != other.bound


def _differences(mine: SubJoin, other: SubJoin) -> tuple[str, ...]:
    """What one of the sub-joins has and the other has not, by kind."""
    kinds = [
        ("on", {" = ".join(map(str, sorted(c))) for c in mine.classes}, {" = ".join(map(str, sorted(c))) for c in other.classes}),
        ("where", set(map(expression_text, mine.filters | mine.residuals)), set(map(expression_text, other.filters | other.residuals))),
        ("within", set(map(_window, mine.windows)), set(map(_window, other.windows))),
    ]
    return tuple(
        f"{word} {' and '.join(sorted(ours - theirs)) or 'nothing'}, there {' and '.join(sorted(theirs - ours)) or 'nothing'}"
        for word, ours, theirs in kinds
        if ours != theirs
    )


def _window(window: tuple[Relation, int | None]) -> str:
    relation, length = window
    return f"{relation} {'unbounded' if length is None else show_duration(length)}"
