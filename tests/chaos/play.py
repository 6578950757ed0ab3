"""A history is played, action by action; `world` judges how each start ends."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from clash.coordinator.control.folder_owner import MARKER

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
from .judge import Rows, batch_of, read_rows
from .starts import Outcome, Place, Running
from .world import Cause, Saved, Told, World, WrongError

_OTHER_RUN = "another run has this checkpoint"
# with a file that is gone or older, a part of the checkpoint is older than the other half, or than the results
_OLDER = (
    "the two halves of the checkpoint do not fit together",
    "there are results of batches after the last one of the checkpoint",
)
_PARTS = {
    "all": (CHECKPOINT, RESULTS),
    "checkpoint": (CHECKPOINT,),
    "results": (RESULTS,),
    "ours": (f"{CHECKPOINT}/{OURS}",),
    "spark": (f"{CHECKPOINT}/{SPARKS}",),
    "none": (CHECKPOINT,),
}


class Player:
    def __init__(self, history: History, root: Path, place: Place, disk: Disk) -> None:
        self.world = World(history, root, place, disk)

    @property
    def told(self) -> Told:
        return self.world.told

    def play(self) -> None:
        for number, action in enumerate(self.world.history.actions):
            try:
                self._act(action, number)
            except WrongError as error:
                raise WrongError(f"action {number}, {action}: {error}") from error

    def _act(self, action: Action, number: int) -> None:
        self.world.told.counts[type(action).__name__.lower()] += 1
        match action:
            case Feed(files):
                self.world.place.feed(self.world.root, self.world.history.case, range(self.world.fed, self.world.fed + files))
                self.world.fed += files
            case Run(clock):
                self._run(clock=clock)
            case KillAt(point, which):
                self._run(fail=f"{point}@{which}", flag=str(self.world.root / f"flag-{number}"))
            case KillAfter(seconds, victim):
                self._run(lambda running: (time.sleep(seconds), running.kill(victim)))
            case Pause(seconds):
                self._pause(seconds)
            case Together():
                self._together()
            case Stranger():
                self._stranger()
            case FullDisk() | ReadOnlyDisk() if not self.world.disk.is_mounted:
                self.world.told.counts["disk actions left out: no disk can be mounted"] += 1
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

    def _run(self, meanwhile: Callable[[Running], object] | None = None, **options: Any) -> None:
        before = self.world.on_disk() if meanwhile is None else None
        running = self.world.begin(**options)
        if meanwhile is not None:
            meanwhile(running)
        self.world.judge(running.wait(), before)

    def _pause(self, seconds: float) -> None:
        before = self.world.on_disk()
        first = self.world.begin()
        time.sleep(seconds)
        first.pause()
        second = self.world.begin(second=True)
        time.sleep(0.2)
        first.resume()
        self._judge_two(first.wait(), second.wait(), before)

    def _together(self) -> None:
        before = self.world.on_disk()
        first, second = self.world.begin(), self.world.begin(second=True)
        self._judge_two(first.wait(), second.wait(), before)

    def _judge_two(self, first: Outcome, second: Outcome, before: dict[str, str]) -> None:
        """One of two at once may be refused because of the other."""
        for one, other in ((first, second), (second, first)):
            if one.error is not None and one.error["what"] == _OTHER_RUN:
                if other.error is not None and other.error["what"] == _OTHER_RUN:
                    raise WrongError("both of two programs at once were refused")
                self.world.told.refusals[_OTHER_RUN] += 1
                self.world.judge(other, before if other.phase == "start" else None)
                return
        for outcome in (first, second):
            self.world.judge(outcome, None)

    def _stranger(self) -> None:
        """The other one may take a folder before this one has a query that writes there: then this one is refused."""
        results = self.world.base / RESULTS
        before = set(folders.files(results))
        outcome = self.world.begin(checkpoint="ck2").wait()
        folders.replace_tree(self.world.base / "ck2", None)
        if outcome.raw or outcome.killed:
            raise WrongError(f"the other program: {outcome.raw or 'was killed'}")
        if outcome.error is not None:
            self.world.count_refusal(outcome, Cause("another checkpoint", (str(results),), lambda: None))
        new = set(folders.files(results)) - before
        for folder in sorted({file.parent for file in new if file.name == MARKER}):
            theirs = [file for file in new if file.is_relative_to(folder)]
            self.world.causes.append(Cause("taken by another checkpoint", (str(folder),), partial(folders.remove, theirs)))
        self._run()

    def _full(self, left: int, seconds: float) -> None:
        cause = Cause("the disk is full", ("No space left on device",), self.world.disk.free, of_disk=True)
        self.world.causes.append(cause)
        if not seconds:
            self.world.disk.fill(left)
            self._run()
        else:
            self._run(lambda running: (time.sleep(seconds), self.world.disk.fill(left)))
        self._over(cause)

    def _read_only(self, seconds: float) -> None:
        cause = Cause("the disk is read-only", ("Read-only file system",), lambda: self.world.disk.remount("rw") and None, of_disk=True)
        self.world.causes.append(cause)
        if not seconds:
            self.world.disk.remount("ro")
            self._run()
        else:
            self._run(lambda running: (time.sleep(seconds), self._when_nothing_is_open()))
        self._over(cause)

    def _when_nothing_is_open(self) -> None:
        for _ in range(200):
            if self.world.disk.remount("ro"):
                return

    def _over(self, cause: Cause) -> None:
        if cause in self.world.causes:
            cause.undo()
            self.world.causes.remove(cause)

    def _damage(self, action: Damage) -> None:
        if action.seconds is None:
            self._damage_file(action)
        else:
            wait = action.seconds
            self._run(lambda _: (time.sleep(wait), self._damage_file(action)))

    def _damage_file(self, action: Damage) -> None:
        file = folders.chosen(self.world.base, action)
        if file is None:
            return
        try:
            whole = file.read_bytes()
            if folders.is_published(self.world.base, file):
                self.world.reader.lose(file)
            if not folders.damage(file, action, [copy.folder for copy in self.world.copies], self.world.base):
                return
        except FileNotFoundError:  # the program that runs has removed it just now
            return
        after = file.read_bytes() if file.exists() else None
        self.world.place.damaged(file, whole, after or b"")

        def undo() -> None:
            if (file.read_bytes() if file.exists() else None) == after:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(whole)

        names = [str(file)]
        if action.how in ("delete", "older") or folders.is_published(self.world.base, file):
            names += [str(file.parent), str(folders.component(self.world.base, file)), *_OLDER]
        shown = file.relative_to(self.world.base)
        self.world.causes.append(Cause(f"{action.how} of {shown}", tuple(names), undo, action.then))
        self.world.told.counts[f"{action.how} in {re.sub(r'[0-9].*', '', '/'.join(shown.parts[:3]))}"] += 1

    def _copy(self, running: float | None) -> None:
        world = self.world
        folder = world.root / "copies" / str(len(world.copies))
        if running is None:
            for part in (CHECKPOINT, RESULTS):
                folders.replace_tree(folder / part, world.base / part)
        else:
            both = [(world.base / part, folder / part) for part in (CHECKPOINT, RESULTS)]
            self._run(lambda _: (time.sleep(running), [folders.copy_running(*one) for one in both]))
        world.copies.append(Saved(folder, tuple(world.causes), dict(world.reader.lost), running is not None))

    def _restore(self, action: Restore) -> None:
        world, nothing = self.world, Saved(self.world.root / "nothing")
        if not world.copies and action.part != "none":
            return
        saved = nothing if action.part == "none" else world.copies[int(action.which * len(world.copies))]
        aside = world.root / "aside" / str(len(list((world.root / "aside").glob("*"))))
        for part in (CHECKPOINT, RESULTS):
            folders.replace_tree(aside / part, world.base / part)
        causes, lost = list(world.causes), dict(world.reader.lost)

        def undo() -> None:
            for part in (CHECKPOINT, RESULTS):
                folders.replace_tree(world.base / part, aside / part)
            world.causes, world.reader.lost = causes, lost

        for part in _PARTS[action.part]:
            folders.replace_tree(world.base / part, saved.folder / part)
        world.reader.lost = self._lost_after(action.part, saved, aside)
        if action.part == "all":
            world.causes = list(saved.causes)
        if action.part != "all" or saved.torn:
            world.causes.append(Cause(f"{action.part} restored", (str(world.base),), undo, action.then))

    def _lost_after(self, part: str, saved: Saved, aside: Path) -> dict[Path, Rows]:
        """The published files that are the user's loss after a part was restored. What is gone and of batches to come is written again."""
        world = self.world
        lost = world.reader.lost
        if part == "spark":
            return lost
        if part == "all":
            return dict(saved.lost)
        if part == "results":
            taken = [world.base / file.relative_to(aside) for file in folders.files(aside / RESULTS)]
            gone = [file for file in taken if folders.is_published(world.base, file) and not file.exists()]
            return {file: read_rows(aside / file.relative_to(world.base)) for file in gone} | lost
        outside = {file: rows for file, rows in lost.items() if file.is_relative_to(world.base / RESULTS)}
        inside = {file: rows for file, rows in saved.lost.items() if file.is_relative_to(world.base / CHECKPOINT)}
        return {file: rows for file, rows in outside.items() if file.exists() or batch_of(file) <= world.last()} | inside
