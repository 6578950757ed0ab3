"""What a run gave beside what the oracle says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from clash.coordinator.control.setup import LiveQuery
from clash.coordinator.inspection import result_schema
from clash.state.memory_storage import MemoryStorage

from .case import Case, Life, Row, plain_rows
from .oracle import Expected, expect
from .runs import Run
from .starts import quick_planner


@contextmanager
def ran(case: Case) -> Iterator[Run]:
    """The history, run to its end; what it left is forgotten afterwards."""
    with quick_planner():
        run = Run(case)
        try:
            for number, batch in enumerate(case.batches):
                run.step(number, batch)
            yield run
        finally:
            MemoryStorage.named(run.engine.uri.removeprefix("memory:")).forget()


def differences(case: Case) -> list[str]:
    """What differs from the oracle; nothing if all is well."""
    with ran(case) as run:
        expected = expect(case, run.lives, run.begins, run.declarations)
        return [
            *run.wrong,
            *_in_batches(run, expected),
            *(told for life in run.lives for told in _in_life(run, life, expected)),
            *_in_results(run),
            *_in_late(run, expected),
        ]


def _in_batches(run: Run, expected: Expected) -> Iterator[str]:
    for number, done in enumerate(run.committed):
        if done.batch != number:
            yield f"batch {number} is called {done.batch}"
        for name, mark in expected.watermarks[number].items():
            if done.watermarks[name] != mark:
                yield f"batch {number} has watermark {done.watermarks[name]} of {name}, not {mark}"


def _in_life(run: Run, life: Life, expected: Expected) -> Iterator[str]:
    """Nothing that does not belong to it, ever; and from `complete` on all that does."""
    got, wanted = run.found[life.key], expected.results[life.key]
    whole = Counter({(b, row): n for (b, row), n in wanted.items() if life.complete is not None and b >= life.complete})
    anew = all(run.begins[name] >= life.first for name in run.case.reads(life.ask))  # nothing came before it that it could lack
    yield from _compared(f"results of {life.key}", got, wanted, wanted if anew else whole)
    soon = _complete_at_once(run, life)
    if soon and life.complete != life.first:
        yield f"{life.key} is complete from {life.complete} on, not at once, though {soon}"


def _complete_at_once(run: Run, life: Life) -> str | None:
    """Why nothing can be missing from the beginning, if so."""
    case = run.case
    if life.began is not None or life.first == 0:
        return None
    if not life.history:
        return "it has no history"
    before = [other for other in run.lives if other.lives(life.first - 1) and other.history]
    if any(
        (o.ask.text, sorted(o.ask.windows)) == (life.ask.text, sorted(life.ask.windows))
        and run.query(o).means(replace(run.query(life), name=o.ask.name))
        and o.complete is not None
        and o.complete <= life.first
        for o in before
    ):
        return "an equal query was there"
    if case.evolves:
        return None
    query = case.parse(life.ask)
    for relation, window in query.join.windows:
        stream = case.by_name[relation.stream]
        if stream.is_table:
            continue
        if run.begins[stream.name] >= life.first:
            continue
        if stream.keep != "all" or (stream.window is not None and (window is None or window > stream.window)):
            return None
    return "all is kept, or comes later"


def _live(run: Run, name: str) -> LiveQuery:
    live = run.engine.coordinator.query(name)
    assert live is not None
    return live


def _in_results(run: Run) -> Iterator[str]:
    """What can be read at the end under a name: of the last query of that name, and of those before it with the same columns."""
    for name in sorted({life.ask.name for life in run.lives}):
        table_ = run.engine.results(name)
        schema = result_schema(_live(run, name).query)
        wanted: Counter[Row] = Counter()
        for life in reversed([life for life in run.lives if life.ask.name == name]):
            outputs = [(o.name, o.expression.type) for o in run.query(life).outputs]
            last = [(o.name, o.expression.type) for o in run.query(_last(run, name)).outputs]
            if outputs != last:
                break
            for (_, row), count in run.found[life.key].items():
                wanted[row] += count
        yield from _compared(f"what can be read of {name}", Counter(plain_rows(table_.columns)), wanted, wanted)
        if table_.schema != schema:
            yield f"{name} has another schema than it says"


def _last(run: Run, name: str) -> Life:
    return [life for life in run.lives if life.ask.name == name][-1]


def _in_late(run: Run, expected: Expected) -> Iterator[str]:
    engine = run.engine
    for stream in engine.coordinator.loaded_plan.topology.arriving:
        found = engine.late(stream.name)
        if run.case.changes:  # other columns at other times
            names = [stream.time] if stream.time is not None else []
            found = found.select(names or found.column_names[:1])
        at = [[name for name, _ in run.case.by_name[stream.name].columns].index(name) for name in found.column_names]
        wanted: Counter[tuple[object, ...]] = Counter()
        for row, count in expected.late[stream.name].items():
            wanted[tuple(row[i] for i in at)] += count
        if at:
            yield from _compared(f"late rows of {stream.name}", Counter(plain_rows(found.columns)), wanted, wanted)


def _compared(what: str, got: Counter[Row], wanted: Counter[Row], needed: Counter[Row]) -> Iterator[str]:
    for word, odd in (("extra", got - wanted), ("missing", needed - got)):
        if odd:
            some = ", ".join(f"{row} × {count}" for row, count in list(odd.items())[:3])
            yield f"{what}: {odd.total()} {word} of {wanted.total()}, e.g. {some}"
