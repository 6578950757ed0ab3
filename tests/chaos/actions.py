"""A history as data: streams, rows and requested changes (a case of tests/oracle), and what happens to the program, its files and disk.

Invariant: a history follows from its seed alone, and its `repr` is what is replayed. Fractions choose among what is there when the action
happens: `which` a file or a copy, `where` a place in a file.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..oracle.case import Case
from .cases import drawn_case


@dataclass(frozen=True)
class Feed:
    """So many more files of every stream can be read."""

    files: int = 1


@dataclass(frozen=True)
class Run:
    """The program is started and reads all that was fed. `clock`: by so many seconds its clock is wrong."""

    clock: int = 0


@dataclass(frozen=True)
class KillAt:
    """kill -9 at a fail point: of the driver, or of one Python worker where the point is in a task."""

    point: str
    time: int = 1


@dataclass(frozen=True)
class KillAfter:
    """kill -9 of a process so many seconds after the start: `driver`, `worker` (one Python worker) or `executor`."""

    seconds: float
    victim: str = "driver"


@dataclass(frozen=True)
class Pause:
    """SIGSTOP so many seconds after the start; the same program is started a second time; SIGCONT."""

    seconds: float


@dataclass(frozen=True)
class Together:
    """The program is started twice at once over one checkpoint."""


@dataclass(frozen=True)
class Stranger:
    """The program is started over another checkpoint, with the same result folders."""


@dataclass(frozen=True)
class FullDisk:
    """So many KiB are left on the disk of checkpoint and results, at the start or `seconds` after it."""

    left: int
    seconds: float = 0.0


@dataclass(frozen=True)
class ReadOnlyDisk:
    """The disk of checkpoint and results cannot be written to, at the start or `seconds` after it."""

    seconds: float = 0.0


@dataclass(frozen=True)
class Damage:
    """A file is damaged between two starts or, with `seconds`, so long after one. `how`: flip (a bit), digit (of a JSON record), cut,
    delete, older (as it is in a copy), swap (with another file beside it). `area`: checkpoint, spark (Spark's half of it) or results.
    `then`: how a refusal is resolved: undo, or anew (checkpoint and results are removed)."""

    how: str
    area: str
    which: float
    where: float = 0.5
    then: str = "undo"
    seconds: float | None = None


@dataclass(frozen=True)
class Copy:
    """A copy of checkpoint and results. `running`: `cp -r` while the program runs, begun so many seconds after its start."""

    running: float | None = None


@dataclass(frozen=True)
class Restore:
    """An earlier copy is put in place of `part`: all, checkpoint, results, ours, spark (a half of the checkpoint); or the checkpoint is
    removed and the results stay: `none`. `then`: how a refusal is resolved: undo, anew, or rollback (of the results that are too many)."""

    part: str
    which: float = 0.0
    then: str = "undo"


Action = Feed | Run | KillAt | KillAfter | Pause | Together | Stranger | FullDisk | ReadOnlyDisk | Damage | Copy | Restore
KINDS = {kind.__name__.lower(): kind for kind in Action.__args__}


@dataclass(frozen=True)
class History:
    """`number`: of the case."""

    seed: int
    where: str
    number: int
    actions: tuple[Action, ...]

    @property
    def case(self) -> Case:
        return drawn_case(self.number)

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.where}, case {self.number}): {', '.join(map(repr, self.actions))}"
