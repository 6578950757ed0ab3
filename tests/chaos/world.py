"""Where a history stands: what was fed, what is damaged, what was copied; and how the end of a start is judged.

After a start, results and late rows equal the oracle's for the batches that are committed. After a kill, those of the last batch may still
be missing. A refusal has three parts and names its cause: the damaged file or, of a published one, its folder; a folder that was put back;
the full disk; the other run. A refused start leaves everything on disk as it was. After a refusal its cause is undone, the results that
are too many are rolled back, or everything is started anew; and then the same is judged again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from clash.cli.main import app
from clash.errors import ClashError
from clash.operations.verify import verify_checkpoint

from . import folders
from .actions import History
from .folders import CHECKPOINT, OURS, RESULTS, Disk
from .judge import Files, Reader, Rows, batch_of
from .starts import Outcome, Place, Running, Start

_MAX_RESOLVED = 6


class WrongError(AssertionError):
    """Neither exact nor refused with its cause."""


@dataclass
class Cause:
    """Why a start may be refused. `names`: one of these is in the message; `undo` puts things right; `then`: how a refusal is resolved."""

    description: str
    names: tuple[str, ...]
    undo: Callable[[], None]
    then: str = "undo"
    of_disk: bool = False
    """A disk may fail in the middle of what a start does: what it has written until then stays."""


@dataclass(frozen=True)
class Saved:
    """A copy of checkpoint and results, with what was known then. `torn`: the program ran while it was made."""

    folder: Path
    causes: tuple[Cause, ...] = ()
    lost: dict[Path, Rows] = field(default_factory=dict)
    torn: bool = False


@dataclass
class Told:
    """What happened, for the counts."""

    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)


class World:
    def __init__(self, history: History, root: Path, place: Place, disk: Disk) -> None:
        self.history, self.root, self.place, self.disk = history, root, place, disk
        self.base = disk.folder
        self.reader = Reader(history.number, self.base)
        self.fed = 0
        self.causes: list[Cause] = []
        self.copies: list[Saved] = []
        self.told = Told()
        for part in (CHECKPOINT, RESULTS):
            (self.base / part).mkdir()

    def begin(self, second: bool = False, **options: Any) -> Running:
        """Starts the program; `second`: beside one that runs."""
        declarations = self.root / "declared"
        declared = tuple(declarations.read_text().split()) if declarations.exists() else ()
        return self.place.begin(Start(self.history.case, self.base, self.fed, declared, seed=self.history.seed, **options), second)

    def on_disk(self) -> dict[str, str]:
        return folders.fingerprint(self.base / CHECKPOINT, self.base / RESULTS)

    def judge(self, outcome: Outcome, before: dict[str, str] | None) -> None:
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
            self.count_refusal(outcome, cause)
            self._resolve(cause, outcome)
            before = self.on_disk()
            outcome = self.begin().wait()
        raise WrongError(f"still refused after {_MAX_RESOLVED} causes were resolved: {outcome.text}")

    def _refuse_changes(self, outcome: Outcome, before: dict[str, str]) -> None:
        after = self.on_disk()
        changed = sorted(file for file in before.keys() | after.keys() if before.get(file) != after.get(file))
        if changed:
            shown = [str(Path(file).relative_to(self.base)) for file in changed[:3]]
            raise WrongError(f"a refused start has changed {len(changed)} files, {shown}: {outcome.text}")

    def count_refusal(self, outcome: Outcome, cause: Cause) -> None:
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
        last = self.last()
        if done.exit_code == 0:
            self.reader.lost = {file: rows for file, rows in self.reader.lost.items() if batch_of(file) <= last}
        return done.exit_code == 0

    def _compare(self, outcome: Outcome) -> None:
        last = self.last() if outcome.killed else outcome.last
        if outcome.killed and not all(cause.of_disk for cause in self.causes):
            return  # the next start tells
        self.told.counts["killed" if outcome.killed else "ended"] += 1
        files = self.place.batches(self.base, self.history.case)
        if last is None or last < 0:
            return
        self._verify()
        wrong = list(self.reader.differences(files, last, last - 1 if outcome.killed else None))
        if wrong:
            raise WrongError(f"after batch {last}, with {[cause.description for cause in self.causes]}: " + "; ".join(wrong))
        unread = [name for name, read in files.items() if name in self._read_streams(files) and len(read) < self.fed]
        if not outcome.killed and unread:
            raise WrongError(f"files of {unread} were not read")

    def _verify(self) -> None:
        """Where nothing is damaged, `clash checkpoint verify` finds nothing, whatever moment the program was killed at."""
        if not self.causes and not self.reader.lost:
            try:
                verify_checkpoint(str(self.base / CHECKPOINT))
            except ClashError as error:
                raise WrongError(f"a whole checkpoint is not verified: {error}") from error

    def _read_streams(self, files: Files) -> set[str]:
        first = {stream.name for stream in self.history.case.first_streams}
        return {name for name, read in files.items() if read or name in first}

    def last(self) -> int:
        """The last committed batch: that of the newest manifest."""
        found = (self.base / CHECKPOINT / OURS / "manifests").glob("*.json")
        return max((int(file.stem) for file in found if file.stem.isdigit()), default=-1)
