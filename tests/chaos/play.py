"""A history is played: after each start, exact results, or a refusal that names its cause and, once that is resolved, exact results.

What is judged after a start: results and late rows equal the oracle's for the batches that are committed. After a kill, those of the last
batch may still be missing. A refusal names the damaged file or its folder, the folder that was put back, the full disk or the other run;
a refused start leaves everything on disk as it was. After a refusal its cause is undone, or everything is started anew, and the history
goes on.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from typer.testing import CliRunner

from clash.cli.main import app
from clash.errors import ClashError

from . import folders
from .actions import (
    Action,
    Copy,
    Damage,
    Feed,
    FullDisk,
    History,
    KillAfter,
    KillAt,
    Pause,
    ReadOnlyDisk,
    Restore,
    Run,
    Stranger,
    Together,
)
from .folders import CHECKPOINT, OURS, RESULTS, SPARKS, Disk
from .judge import Files, Reader, Rows
from .starts import Outcome, Place, Running, Start

_OTHER_RUN = "another run has this checkpoint"
_HALVES = "the two halves of the checkpoint do not fit together"  # with a file that is gone or older, one half is older than the other
_MAX_RESOLVED = 6


class WrongError(AssertionError):
    """Neither exact nor refused with its cause."""


@dataclass
class Cause:
    """Why a start may be refused. `names`: one of these is in the message; `undo` puts things right."""

    description: str
    names: tuple[str, ...]
    undo: Callable[[], None]
    then: str = "undo"
    of_disk: bool = False
    """A disk may fail in the middle of what a start does: what it has written until then stays."""


@dataclass(frozen=True)
class Saved:
    """A copy of checkpoint and results, with what was known then."""

    folder: Path
    causes: tuple[Cause, ...]
    lost: dict[Path, Rows]
    torn: bool


@dataclass
class Told:
    """What happened, for the counts."""

    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)


class Player:
    def __init__(self, history: History, root: Path, place: Place, disk: Disk) -> None:
        self.history, self.root, self.place, self.disk = history, root, place, disk
        self.base = disk.folder
        self.reader = Reader(history.number, self.base)
        self.fed = 0
        self.causes: list[Cause] = []
        self.copies: list[Saved] = []
        self.files: Files = {}
        self.told = Told()
        for part in (CHECKPOINT, RESULTS):
            (self.base / part).mkdir()

    def play(self) -> Told:
        for number, action in enumerate(self.history.actions):
            try:
                self._act(action, number)
            except WrongError as error:
                raise WrongError(f"action {number}, {action}: {error}") from error
        return self.told

    # ---- actions -----------------------------------------------------------------------------------------------

    def _act(self, action: Action, number: int) -> None:
        self.told.counts[type(action).__name__.lower()] += 1
        match action:
            case Feed(files):
                self.place.feed(self.root, self.history.case, range(self.fed, self.fed + files))
                self.fed += files
            case Run(clock):
                self._run(clock=clock)
            case KillAt(point, which):
                self._run(fail=f"{point}@{which}", flag=str(self.root / f"flag-{number}"))
            case KillAfter(seconds, victim):
                self._run(lambda running: (time.sleep(seconds), running.kill(victim)))
            case Pause(seconds):
                self._pause(seconds)
            case Together():
                self._together()
            case Stranger():
                self._stranger()
            case FullDisk() | ReadOnlyDisk() if not self.disk.is_mounted:
                self.told.counts["disk actions left out: no disk can be mounted"] += 1
            case FullDisk(left, seconds):
                self._full(left, seconds)
            case ReadOnlyDisk(seconds):
                self._read_only(seconds)
            case Damage():
                self._damage(action)
            case Copy(running):
                self._copy(running)
            case Restore():
                self._restore(action)

    def _begin(self, second: bool = False, **options: object) -> Running:
        declarations = self.root / "declared"
        declared = tuple(declarations.read_text().split()) if declarations.exists() else ()
        start = Start(self.history.case, self.base, self.fed, declared, seed=self.history.seed, **options)  # type: ignore[arg-type]
        return self.place.begin(start, second)

    def _run(self, meanwhile: Callable[[Running], object] | None = None, **options: object) -> None:
        before = self._on_disk() if meanwhile is None else None
        running = self._begin(**options)
        if meanwhile is not None:
            meanwhile(running)
        self._judge(running.wait(), before)

    def _pause(self, seconds: float) -> None:
        before = self._on_disk()
        first = self._begin()
        time.sleep(seconds)
        first.pause()
        second = self._begin(second=True)
        time.sleep(0.2)
        first.resume()
        self._judge_two(first.wait(), second.wait(), before)

    def _together(self) -> None:
        before = self._on_disk()
        first, second = self._begin(), self._begin(second=True)
        self._judge_two(first.wait(), second.wait(), before)

    def _judge_two(self, first: Outcome, second: Outcome, before: dict[str, str]) -> None:
        """One of two at once may be refused because of the other."""
        for one, other in ((first, second), (second, first)):
            if one.error is not None and one.error["what"] == _OTHER_RUN:
                if other.error is not None and other.error["what"] == _OTHER_RUN:
                    raise WrongError("both of two programs at once were refused")
                self.told.refusals[_OTHER_RUN] += 1
                self._judge(other, before if other.phase == "start" else None)
                return
        for outcome in (first, second):
            self._judge(outcome, None)

    def _stranger(self) -> None:
        outcome = self._begin(checkpoint="ck2").wait()
        folders.replace_tree(self.base / "ck2", None)
        if outcome.raw or outcome.killed:
            raise WrongError(f"the other program: {outcome.raw or 'was killed'}")
        if outcome.error is not None:
            self._refuse_unnamed(outcome, Cause("another checkpoint", (str(self.base / RESULTS),), lambda: None))
        self._run()

    def _full(self, left: int, seconds: float) -> None:
        cause = Cause("the disk is full", ("No space left on device",), self.disk.free, of_disk=True)
        self.causes.append(cause)
        if not seconds:
            self.disk.fill(left)
            self._run()
        else:
            self._run(lambda running: (time.sleep(seconds), self.disk.fill(left)))
        self._over(cause)

    def _read_only(self, seconds: float) -> None:
        cause = Cause("the disk is read-only", ("Read-only file system",), lambda: self.disk.remount("rw") and None, of_disk=True)
        self.causes.append(cause)
        if not seconds:
            self.disk.remount("ro")
            self._run()
        else:
            self._run(lambda running: (time.sleep(seconds), self._when_nothing_is_open()))
        self._over(cause)

    def _when_nothing_is_open(self) -> None:
        for _ in range(200):
            if self.disk.remount("ro"):
                return

    def _over(self, cause: Cause) -> None:
        if cause in self.causes:
            cause.undo()
            self.causes.remove(cause)

    def _damage(self, action: Damage) -> None:
        if action.seconds is None:
            self._damage_file(action)
        else:
            wait = action.seconds
            self._run(lambda _: (time.sleep(wait), self._damage_file(action)))

    def _damage_file(self, action: Damage) -> None:
        file = folders.chosen(self.base, action)
        if file is None:
            return
        try:
            whole = file.read_bytes()
            if folders.is_published(self.base, file):
                self.reader.lose(file)
            if not folders.damage(file, action, [copy.folder for copy in self.copies], self.base):
                return
        except FileNotFoundError:  # the program that runs has removed it just now
            return
        after = file.read_bytes() if file.exists() else None

        def undo() -> None:
            if (file.read_bytes() if file.exists() else None) == after:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(whole)

        published = [str(file.parent)] if folders.is_published(self.base, file) else []
        names = (str(file), *published, *([_HALVES] if action.how in ("delete", "older") else []))
        shown = file.relative_to(self.base)
        self.causes.append(Cause(f"{action.how} of {shown}", names, undo, action.then))
        self.told.counts[f"{action.how} in {re.sub(r'[0-9].*', '', '/'.join(shown.parts[:3]))}"] += 1

    def _copy(self, running: float | None) -> None:
        folder = self.root / "copies" / str(len(self.copies))
        if running is None:
            for part in (CHECKPOINT, RESULTS):
                folders.replace_tree(folder / part, self.base / part)
        else:
            self._run(lambda _: (time.sleep(running), [folders.copy_running(self.base / p, folder / p) for p in (CHECKPOINT, RESULTS)]))
        self.copies.append(Saved(folder, tuple(self.causes), dict(self.reader.lost), running is not None))

    def _restore(self, action: Restore) -> None:
        if not self.copies and action.part != "none":
            return
        saved = self.copies[int(action.which * len(self.copies))] if self.copies else Saved(self.root / "nothing", (), {}, False)
        aside = self.root / "aside" / str(len(list((self.root / "aside").glob("*"))))
        for part in (CHECKPOINT, RESULTS):
            folders.replace_tree(aside / part, self.base / part)
        causes, lost = list(self.causes), dict(self.reader.lost)

        def undo() -> None:
            for part in (CHECKPOINT, RESULTS):
                folders.replace_tree(self.base / part, aside / part)
            self.causes, self.reader.lost = causes, lost

        for part in _PARTS[action.part]:
            folders.replace_tree(self.base / part, saved.folder / part)
        if action.part == "results":  # the user has taken away what was published since
            for file in folders.files(aside / RESULTS):
                there = self.base / file.relative_to(aside)
                if folders.is_published(self.base, there) and not there.exists():
                    self.reader.lost.setdefault(there, _rows(file))
        elif action.part in ("all", "checkpoint"):
            self.reader.lost = {f: r for f, r in (saved.lost if action.part == "all" else lost).items() if f.exists() or f in saved.lost}
        if action.part == "all":
            self.causes = list(saved.causes)
        if action.part != "all" or saved.torn:
            self.causes.append(Cause(f"{action.part} restored", (str(self.base),), undo, action.then))

    # ---- judging -----------------------------------------------------------------------------------------------

    def _on_disk(self) -> dict[str, str]:
        return folders.fingerprint(self.base / CHECKPOINT, self.base / RESULTS)

    def _judge(self, outcome: Outcome, before: dict[str, str] | None) -> None:
        """`before`: what was on disk before the start; None if another program ran meanwhile."""
        for _ in range(_MAX_RESOLVED):
            if outcome.raw:
                raise WrongError(f"a raw exception: {outcome.raw}")
            if outcome.error is None:
                self._compare(outcome)
                return
            cause = next((c for c in reversed(self.causes) if any(name in outcome.text for name in c.names)), None)
            if cause is None:
                raise WrongError(f"refused without its cause; {[c.description for c in self.causes]}: {outcome.text}")
            if outcome.phase == "start" and before is not None and not cause.of_disk:
                self._refuse_changes(outcome, before)
            self._refuse_unnamed(outcome, cause)
            self._resolve(cause, outcome)
            before = self._on_disk()
            outcome = self._begin().wait()
        raise WrongError(f"still refused after {_MAX_RESOLVED} causes were resolved: {outcome.text}")

    def _refuse_changes(self, outcome: Outcome, before: dict[str, str]) -> None:
        after = self._on_disk()
        changed = sorted(file for file in before.keys() | after.keys() if before.get(file) != after.get(file))
        if changed:
            shown = [str(Path(file).relative_to(self.base)) for file in changed[:3]]
            raise WrongError(f"a refused start has changed {len(changed)} files, {shown}: {outcome.text}")

    def _refuse_unnamed(self, outcome: Outcome, cause: Cause) -> None:
        if not any(name in outcome.text for name in cause.names) or not all((outcome.error or {}).values()):
            raise WrongError(f"refused without its cause, {cause.description}: {outcome.text}")
        self.told.refusals[f"{(outcome.error or {})['what']} ({cause.description.partition(' of ')[0]})"] += 1

    def _resolve(self, cause: Cause, outcome: Outcome) -> None:
        if cause.then == "rollback" and "clash checkpoint rollback" in outcome.text and self._roll_back():
            self.told.counts["rolled back"] += 1
            cause.then = "undo"
        elif cause.then == "anew":
            for part in (CHECKPOINT, RESULTS):
                folders.replace_tree(self.base / part, None)
            self.causes, self.reader.lost = [c for c in self.causes if c.of_disk], {}
            self.place.forget(self.base)
        else:
            cause.undo()
            self.causes = [c for c in self.causes if c is not cause]

    def _roll_back(self) -> bool:
        """By the command that the hint names, with all folders of results; whether that was possible."""
        further = [word for folder in sorted((self.base / RESULTS).iterdir()) for word in ("--results", str(folder))]
        done = CliRunner().invoke(app, ["checkpoint", "rollback", str(self.base / CHECKPOINT), "--yes", *further])
        if done.exception is not None and not isinstance(done.exception, ClashError | SystemExit):
            raise WrongError(f"the rollback raised {done.exception!r}")
        last = self._last()
        if done.exit_code == 0:
            self.reader.lost = {file: rows for file, rows in self.reader.lost.items() if int(file.name.split("-")[1]) <= last}
        return done.exit_code == 0

    def _compare(self, outcome: Outcome) -> None:
        last = self._last() if outcome.killed else outcome.last
        if outcome.killed and not all(cause.of_disk for cause in self.causes):
            return  # the next start tells
        self.told.counts["killed" if outcome.killed else "ended"] += 1
        files = self.place.batches(self.base, self.history.case)
        if last is None or last < 0:
            return
        wrong = list(self.reader.differences(files, last, last - 1 if outcome.killed else None))
        if wrong:
            raise WrongError(f"after batch {last}, with {[cause.description for cause in self.causes]}: " + "; ".join(wrong))
        unread = [name for name, read in files.items() if name in self._read_streams(files) and len(read) < self.fed]
        if not outcome.killed and unread:
            raise WrongError(f"files of {unread} were not read")

    def _read_streams(self, files: Files) -> set[str]:
        first = {stream.name for stream in self.history.case.first_streams}
        return {name for name, read in files.items() if read or name in first}

    def _last(self) -> int:
        found = (self.base / CHECKPOINT / OURS / "manifests").glob("*.json")
        return max((int(file.stem) for file in found if file.stem.isdigit()), default=-1)


_PARTS = {
    "all": (CHECKPOINT, RESULTS),
    "checkpoint": (CHECKPOINT,),
    "results": (RESULTS,),
    "ours": (f"{CHECKPOINT}/{OURS}",),
    "spark": (f"{CHECKPOINT}/{SPARKS}",),
    "none": (CHECKPOINT,),
}


def _rows(file: Path) -> Rows:
    from .judge import read_rows

    return read_rows(file)
