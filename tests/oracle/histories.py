"""Random histories in which everything changes: queries, streams, workers, plans and the program itself, at any border of an epoch."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from .case import Ask, Batch, Case, Change, Program
from .generate import interrupted, random_setting
from .programs import after, all_after, started
from .queries import random_queries
from .schemas import quiet_batches, random_batches, random_schema

_NAMES = [f"q{n}" for n in range(6)]
_MOST = 5  # queries at a time


def random_history(rng: Random, most_rows: int = 24, siblings: float = 0.0) -> Case:
    schema = random_schema(rng)
    kept = rng.choice([0.1, 0.1, 0.5, 1.0])
    schema = replace(schema, streams=tuple(replace(s, keep="all" if rng.random() < kept else "needed") for s in schema.streams))
    asks = random_queries(rng, schema, rng.randint(2, 6), siblings)
    setting = replace(random_setting(rng, schema), epoch=rng.choice([1, 1, 1, 2, 3]), adaptive=rng.random() < 0.3)
    setting = replace(setting, options=(*setting.options, *_rewriting(rng)))
    case = Case(schema.streams, asks, (), setting)
    widest = max((len(query.aliases) for query in case.parsed), default=1)
    rows = min(rng.choice([3, 6, 10, most_rows]), {1: 60, 2: 40, 3: 20, 4: 12}.get(widest, 6))
    batches = list(random_batches(rng, schema, rows, rng.choice([8, 12] if setting.adaptive else [3, 5, 8, 8, 12])))
    told = _Told(rng, case)
    first = told.program.queries
    batches = [told.batch(at, batch) for at, batch in enumerate(batches)]
    if rng.random() < 0.4:
        batches += quiet_batches(rng, schema, batches[-1], 4 + setting.epoch)
    case = replace(case, queries=first, batches=tuple(batches))
    return _filling(rng, case) if rng.random() < 0.2 else case


class _Told:
    """What is live, as it is told batch by batch: each change makes sense then. `waiting`: streams that come later."""

    def __init__(self, rng: Random, case: Case) -> None:
        self.rng, self.case = rng, case
        self.waiting = self._later()
        asks = self._asks()
        self.program = Program(asks[: rng.randint(1, 3)], case.setting.workers)
        self.live = {ask.name: ask for ask in self.program.queries}
        self.workers = case.setting.workers
        adaptive = case.setting.adaptive  # what the planner has found is for nobody if the queries change at the same border
        self.often = rng.choice([0.1, 0.2, 0.4] if adaptive else [0.3, 0.6, 0.9])
        self.replanned = 0.0 if adaptive else rng.choice([0.0, 0.3, 0.8])
        self.programs = rng.choice([0.0, 0.5, 1.0])

    def _later(self) -> set[str]:
        """Some streams, if there is something to ask without them."""
        names = [stream.name for stream in self.case.streams]
        later = set(self.rng.sample(names, self.rng.choice([1, 1, 2]))) if self.rng.random() < 0.4 else set()
        return later if any(not self.case.reads(ask) & later for ask in self.case.queries) else set()

    def _asks(self) -> tuple[Ask, ...]:
        """Over the streams that are there."""
        return tuple(ask for ask in self.case.queries if not self.case.reads(ask) & self.waiting)

    def batch(self, at: int, batch: Batch) -> Batch:
        rng = self.rng
        batch = interrupted(rng, batch)
        if batch.restart and rng.random() < self.programs:
            batch = replace(batch, program=self._program())
        if at == 0:
            return batch
        changes: list[Change] = []
        while rng.random() < self.often and len(changes) < 3:
            changes += self._stream() if self.waiting and rng.random() < 0.3 else [self._noted(self._change(self._asks()))]
        batch = replace(batch, changes=tuple(changes), plan_seed=rng.randrange(10**6) if rng.random() < self.replanned else None)
        if batch.fail is not None and rng.random() < self.programs:
            batch = replace(batch, second=self._program())
        return batch

    def _noted(self, change: Change) -> Change:
        self.workers = change.workers or self.workers
        self.live = after(change, self.live)
        return change

    def _stream(self) -> list[Change]:
        """One stream more, and often a query over it at once."""
        name = self.rng.choice(sorted(self.waiting))
        self.waiting.discard(name)
        found = [Change("stream", name=name)]
        over = tuple(ask for ask in self._asks() if name in self.case.reads(ask))
        return [*found, self._noted(self._change(over))] if over and self.rng.random() < 0.6 else found

    def _change(self, asks: tuple[Ask, ...]) -> Change:
        """The same text may be asked under two names, or a name have another text later."""
        rng, live = self.rng, self.live
        kind = rng.choice(["add", "add", "add", "remove", "remove", "replace", "rescale"])
        free = [name for name in _NAMES if name not in live]
        if kind == "add" and free and len(live) < 4:
            ask = rng.choice(asks)
            name = ask.name if ask.name in free and rng.random() < 0.7 else rng.choice(free)
            return Change("add", replace(self._windowed(ask), name=name), history=rng.random() < 0.7)
        if kind in ("add", "remove") and (len(live) > 1 or (live and rng.random() < 0.5)):
            return Change("remove", name=rng.choice(sorted(live)))
        if kind in ("remove", "replace") and live:
            name = rng.choice(sorted(live))
            ask = self._windowed(live[name] if rng.random() < 0.1 else rng.choice(asks))
            return Change("replace", replace(ask, name=name), history=rng.random() < 0.7)
        return Change("rescale", workers=rng.choice([n for n in range(1, 6) if n != self.workers]))

    def _windowed(self, ask: Ask) -> Ask:
        """At times the same text with other windows."""
        if self.rng.random() > 0.15 or "WINDOW(" in ask.text:  # one relation has one window
            return ask
        alias = self.rng.choice([alias for alias, _ in self.case.parse(ask).aliases])
        return replace(ask, windows=(*(w for w in ask.windows if w[0] != alias), (alias, self.rng.choice(["unbounded", "2 seconds"]))))

    def _program(self) -> Program:
        """The last one, with some of it changed; or not, whatever was changed at run time."""
        rng = self.rng
        streams = (rng.choice(sorted(self.waiting)),) if self.waiting and rng.random() < 0.8 else ()
        self.waiting -= {*streams}
        listed = list(self.program.queries)
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            listed = self._relisted(listed)
        workers = rng.randint(1, 5) if rng.random() < 0.3 else self.program.workers
        program = Program(tuple(listed), workers, streams)
        changes = started(self.live, self.program, program)
        live = all_after(changes, self.live)
        if len(live) > _MOST:
            return replace(self.program, streams=streams)
        self.workers = workers if workers != self.program.workers else self.workers
        self.live, self.program = live, replace(program, streams=())
        return program

    def _relisted(self, listed: list[Ask]) -> list[Ask]:
        """`live`: it lists what runs under a name that it did not list, or listed with another text."""
        rng = self.rng
        kind = rng.choice(["new", "new", "drop", "drop", "text", "text", "live", "order"])
        names = [ask.name for ask in listed]
        if kind == "drop" and listed:
            gone = rng.choice(names)
            return [ask for ask in listed if ask.name != gone]
        if kind == "order":
            return rng.sample(listed, len(listed))
        if kind == "live" and self.live:
            name = rng.choice(sorted(self.live))
            return [*(ask for ask in listed if ask.name != name), self.live[name]]
        free = [name for name in _NAMES if name not in names]
        name = rng.choice(names if not free or (kind == "text" and names) else free)
        ask = replace(self._windowed(rng.choice([*self._asks(), *listed])), name=name)
        return [ask if old.name == name else old for old in listed] if name in names else [*listed, ask]


def _filling(rng: Random, case: Case) -> Case:
    """Nothing expires and little changes but one plan: its intermediate stores are filled with the past, a few tuples per batch."""
    streams = tuple(replace(stream, window=None, lateness=None, idle=None) for stream in case.streams)
    at = max(1, len(case.batches) // 3)
    batches = [
        replace(
            b if rng.random() < 0.2 else replace(b, changes=(), program=None, second=None),
            plan_seed=rng.randrange(10**6) if n == at else None,
        )
        for n, b in enumerate(case.batches)
    ]
    options = {**dict(case.setting.options), "relayout_rows": rng.choice([1, 2, 4])}
    setting = replace(case.setting, epoch=1, options=tuple(options.items()), adaptive=False)
    return replace(case, streams=streams, batches=tuple(batches), setting=setting)


def _rewriting(rng: Random) -> list[tuple[str, int]]:
    found = [("relayout_rows", rng.choice([1, 10]))] if rng.random() < 0.4 else []
    return [*found, ("old_layouts", rng.choice([0, 0, 1, 2]))] if rng.random() < 0.5 else found
