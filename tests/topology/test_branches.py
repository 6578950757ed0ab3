"""With a past, every combination belongs to exactly one branch: random plans with random bounds, walked for random arrivals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random

import pytest

import clash
from clash.model.layout import Layout
from clash.model.query import Query, SubJoin
from clash.model.relation import Attribute, Relation
from clash.optimizer import Plan, validate
from clash.plan.codecs import topology_from_json, topology_to_json
from clash.plan.logical import StoreKey
from clash.plan.store_names import store_id
from clash.plan.topology import Bounds, ProbeRule, Topology
from clash.plan.visibility import VisibilityBounds
from clash.topology.build import build_topology
from clash.topology.columns import attributes_in, query_attributes

from ..oracle.generate import random_case
from ..oracle.plans import random_plan
from .plans import by_hand

NOW = 1000  # the batch's first arrival
_BOUNDS = (100, 200, 300, 400)
_CHAIN = {"q1": "R(a), S(a,b), T(b)"}
_FED = ["q1: S T R", "q1: T S R", "q1: R ST", "ST: S T", "ST: T S"]
_LAYOUTS = {"R": "a", "S": "b", "T": "b", "ST": "S.a"}


def _bounds(topology: Topology, origin: str) -> list[list[tuple[str, Bounds]]]:
    """The ways from an origin to results, by store."""
    found: list[list[tuple[str, Bounds]]] = []

    def walk(label: str, way: list[tuple[str, Bounds]]) -> None:
        rule = topology.rule[topology.edge[label].store, label]
        assert isinstance(rule, ProbeRule)
        way = [*way, (rule.store[:4], Bounds(rule.since, rule.before))]
        if rule.emits:
            found.append(way)
        for child in rule.out:
            walk(child, way)

    for root in topology.origins:
        if str(root.relation) == origin and root.backfills is None:
            for label in root.out:
                walk(label, [])
    return sorted(found)


def _chain(past: VisibilityBounds) -> Topology:
    made = build_topology(by_hand(_CHAIN, _FED, _LAYOUTS), past)
    validate(made)
    return made


def _id_of_st() -> str:
    return next(store.id for store in build_topology(by_hand(_CHAIN, _FED, _LAYOUTS)).stores if store.join is not None)


def test_a_store_that_was_introduced_later_has_two_branches() -> None:
    made = _chain(VisibilityBounds(introduced={_id_of_st(): 100}, oldest={"s_S": 50, "s_T": 70}))
    assert _bounds(made, "R") == [[("m_S_", Bounds(100, None))], [("s_S", Bounds(0, 100)), ("s_T", Bounds(0, 100))]]
    assert _bounds(made, "S") == [[("s_T", Bounds()), ("s_R", Bounds())]]


@pytest.mark.parametrize("oldest", [{}, {"s_S": 50}, {"s_S": 50, "s_T": 100}, {"s_S": 100, "s_T": 100, "s_R": 3}])
def test_one_branch_again_where_some_part_has_no_older_row(oldest: dict[str, int]) -> None:
    assert _chain(VisibilityBounds(introduced={_id_of_st(): 100}, oldest=oldest)) == _chain(VisibilityBounds())


def test_a_query_reads_a_store_from_its_own_beginning_on() -> None:
    past = VisibilityBounds(introduced={_id_of_st(): 100}, added={"q1": 200}, oldest={"s_S": 50, "s_T": 70})
    assert _bounds(_chain(past), "R")[0] == [("m_S_", Bounds(200, None))]


def test_rows_that_lack_a_column_are_never_read() -> None:
    past = VisibilityBounds(columns={"s_T": {"b": 60}}, oldest={"s_S": 50, "s_T": 50})
    assert _bounds(_chain(past), "S") == [[("s_T", Bounds(60, None)), ("s_R", Bounds())]]


def test_queries_without_history_start_where_they_were_added() -> None:
    made = _chain(
        VisibilityBounds(introduced={_id_of_st(): 100}, without_history={"q1": 80}, added={"q1": 80}, oldest={"s_S": 50, "s_T": 70})
    )
    assert topology_from_json(topology_to_json(made)) == made
    assert made.starts == (("q1", 80),)


def test_what_is_fed_to_one_worker_does_not_come_from_all() -> None:
    """R and S are on every worker, and so is one copy of RS; the other copy is not, and would have got each row once per worker."""
    plan = by_hand(_CHAIN, ["q1: R S T", "q1: S R T", "q1: T RS", "RS: R S", "RS: S R"], {"R": "*", "S": "*", "T": "b", "RS": "*"})
    twice = tuple(
        replace(s, layouts=(*s.layouts, Layout("hash", "b", Relation("S")))) if s.key.join is not None else s for s in plan.stores
    )
    validate(build_topology(replace(plan, stores=twice)))


# ---- random plans and pasts ----------------------------------------------------------------------------------------


class _World:
    """A plan, a past that could be, and what is stored under it."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        case = random_case(rng)
        base = clash.optimize(case.texts, streams=case.streams, windows=case.windows, workers=3, cost="probe", mirs=False, time_limit=0.0)
        self.plan = random_plan(rng, base)
        self.queries = {query.name: query for query in self.plan.queries}
        self.mirs = {store_id(s.key): s.key for s in self.plan.stores if s.key.join is not None}
        self.past = self._past()
        self.topology = build_topology(self.plan, self.past)

    def _past(self) -> VisibilityBounds:
        rng = self.rng
        introduced = {mir: rng.choice(_BOUNDS) for mir in self.mirs if rng.random() < 0.6}
        added = {name: rng.choice(_BOUNDS) for name in self.queries if rng.random() < 0.4}
        columns: dict[str, dict[str, int]] = {}
        oldest = {}
        for store in self.plan.stores:
            if store.key.join is None and rng.random() < 0.9:
                oldest[store_id(store.key)] = rng.choice([0, 0, *_BOUNDS, 150])
            if store.key.join is None and rng.random() < 0.5:
                columns[store_id(store.key)] = {
                    name: min(rng.choice(_BOUNDS), *self._at_most(store.key, name, introduced, added))
                    for name, _ in self.plan.streams[str(store.key.stream)].columns
                    if rng.random() < 0.5
                }
        filled = frozenset(mir for mir in introduced if rng.random() < 0.2)
        filling = frozenset(mir for mir in introduced if mir not in filled and rng.random() < 0.5)
        return VisibilityBounds(introduced, filled, filling, added, frozenset(), columns, oldest)

    def _at_most(self, key: StoreKey, column: str, introduced: Mapping[str, int], added: Mapping[str, int]) -> Iterator[int]:
        """Since when a column is kept at least: for the queries that name it, and for the stores that are made with it."""
        yield NOW
        for query in self.queries.values():
            names = {(a.relation.stream, a.column) for a in query_attributes(query)}
            if key.owner in (None, query.name) and (key.stream, column) in names:
                yield added.get(query.name, 0)
        for mir, made in self.mirs.items():
            if made.join is not None and any(a.column == column and a.relation.stream == key.stream for a in _made_of(made.join)):
                yield introduced.get(mir, 0)

    def arrivals(self, relations: frozenset[Relation], owner: str | None) -> dict[Relation, int]:
        """A combination; its last part is of this batch, the others are live."""
        rng, found = self.rng, {}
        last = rng.choice(sorted(relations))
        for number, relation in enumerate(sorted(relations)):
            choice = [at for at in (0, 50, 99, 100, 150, 200, 250, 300, 399, 400, 500) if at >= self.oldest(relation, owner)]
            at = NOW if not choice or rng.random() < 0.1 else rng.choice(choice)
            found[relation] = NOW + 10 if relation == last else at + number * (at == NOW)
        return found

    def oldest(self, relation: Relation, owner: str | None) -> int:
        return self.past.oldest.get(store_id(StoreKey(relation.stream, None, owner)), NOW)

    def kept(self, relation: Relation, column: str, owner: str | None) -> int:
        return self.past.columns.get(store_id(StoreKey(relation.stream, None, owner)), {}).get(column, 0)

    def has(self, arrivals: Mapping[Relation, int], needs: set[Attribute], owner: str | None, origin: Relation | None = None) -> bool:
        """Were all those columns kept of the tuples? The origin's are at hand."""
        return all(arrivals[r] >= self.kept(r, c, owner) for r, c in needs if r in arrivals and r != origin)

    def stored(self, mir: str, arrivals: Mapping[Relation, int]) -> bool:
        """Does the intermediate store have the row? It was completed since the store was introduced, of tuples that had its columns."""
        key = self.mirs[mir]
        assert key.join is not None
        parts = {relation: arrivals[relation] for relation in key.join.relations}
        last = max(parts, key=lambda r: parts[r])
        since = 0 if mir in self.past.filled else self.past.introduced.get(mir, 0)
        return max(parts.values()) >= since and self.has(parts, _made_of(key.join), key.owner, last)

    def walk(self, arrivals: Mapping[Relation, int], backfills: str | None = None) -> Counter[str]:
        """How often the combination is found, by query or by the store that is filled."""
        found: Counter[str] = Counter()
        origin = max(arrivals, key=lambda r: arrivals[r])
        for root in self.topology.origins:
            if root.relation == origin and root.backfills == backfills and arrivals[origin] >= root.since:
                found.update(root.emits)
                for label in root.out:
                    self._step(label, arrivals, found, ())
        return found

    def _step(self, label: str, arrivals: Mapping[Relation, int], found: Counter[str], read: tuple[tuple[str, int], ...]) -> None:
        rule = self.topology.rule[self.topology.edge[label].store, label]
        if not isinstance(rule, ProbeRule) or not rule.adds.relations <= set(arrivals):
            return
        at = max(arrivals[relation] for relation in rule.adds.relations)
        if at < rule.since or (rule.before is not None and at >= rule.before):
            return
        if rule.store in self.mirs:
            if not self.stored(rule.store, arrivals):
                return
            read = (*read, (rule.store, at))
        whole = rule.bound.relations == set(arrivals)
        for query in rule.emits if whole else ():
            self._may_read(query, read, arrivals)
            found[query] += 1
        for into in rule.feeds if whole else ():
            edge = self.topology.edge[into]
            found[edge.store] += edge.layout == self.topology.store[edge.store].layouts[0]  # one edge for each of them
        for child in rule.out:
            self._step(child, arrivals, found, read)

    def _may_read(self, query: str, read: tuple[tuple[str, int], ...], arrivals: Mapping[Relation, int]) -> None:
        """An intermediate store's row has a query's columns only if it was completed while the query was asked.

        The tuples are live in the stores of the query that the walk is for; stores of another owner may never have had them.
        """
        owner = _owner(self.plan, self.queries[query])
        if any(at < self.oldest(relation, owner) for relation, at in arrivals.items()):
            return
        added = self.past.added.get(query, 0)
        for mir, at in read:
            if added > self.past.introduced.get(mir, 0):
                assert at >= added, f"{query} reads a row of {mir} from before it"


def _made_of(join: SubJoin) -> set[Attribute]:
    return {a for equal in join.classes for a in equal} | attributes_in(*join.filters, *join.residuals)


def _owner(plan: Plan, query: Query) -> str | None:
    steps = [step for order in plan.probe_orders if query.name in order.queries for step in order.steps]
    return steps[0].store.owner if steps else None


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_every_combination_has_one_branch(first: int) -> None:
    branched = lacking = filled = 0
    for seed in range(first, first + 40):
        world = _World(seed)
        validate(world.topology)
        branched += any(isinstance(rule, ProbeRule) and rule.before is not None for rule in world.topology.rules)
        for query in world.plan.queries:
            owner = _owner(world.plan, query)
            for _ in range(60):
                arrivals = world.arrivals(query.join.relations, owner)
                origin = max(arrivals, key=lambda r: arrivals[r])
                wanted = world.has(arrivals, query_attributes(query), owner, origin)
                lacking += not wanted
                assert world.walk(arrivals)[query.name] == wanted, f"seed {seed}: {query.name} {arrivals} {world.past}"
        for mir, key in world.mirs.items():
            assert key.join is not None
            for _ in range(60):
                arrivals = world.arrivals(key.join.relations, key.owner)
                origin = max(arrivals, key=lambda r: arrivals[r])
                wanted = world.has(arrivals, _made_of(key.join), key.owner, origin)
                assert world.walk(arrivals)[mir] == wanted, f"seed {seed}: {mir} {arrivals} {world.past}"
                before = {r: min(at, world.past.introduced.get(mir, 0) - 20) + n for n, (r, at) in enumerate(sorted(arrivals.items()))}
                if mir in world.past.filling and all(at >= world.oldest(r, key.owner) for r, at in before.items()):
                    wanted = world.has(before, _made_of(key.join), key.owner)
                    filled += wanted
                    assert world.walk(before, mir)[mir] == wanted, f"seed {seed}: {mir} {before} {world.past}"
    assert branched > 4
    assert lacking > 50
    assert filled > 20


def test_plain_again_when_the_old_rows_have_gone() -> None:
    for seed in range(30):
        world = _World(seed)
        plan, gone = world.plan, replace(world.past, filling=frozenset(), oldest={store_id(s.key): 500 for s in world.plan.stores})
        assert build_topology(plan, gone) == build_topology(plan), seed
        assert build_topology(plan, replace(gone, oldest={})) == build_topology(plan), seed
