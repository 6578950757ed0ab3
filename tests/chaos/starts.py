"""One start of the program, and how it ended: the same in every place that a history is played in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from clash.errors import ClashError

from ..oracle.case import Case

MAX_SECONDS = 240  # for one start: more is a hang


@dataclass(frozen=True)
class Start:
    """`fed`: so many files of every stream can be read; `declared`: streams that an earlier start declared while it ran, which this one
    declares at once; `clock`: by so many seconds the clock is wrong; `fail`: CLASH_FAILPOINT; `declarations`: the file to which names of
    streams are added when they are declared."""

    case: Case
    base: Path
    fed: int
    declared: tuple[str, ...] = ()
    clock: int = 0
    fail: str = ""
    flag: str = ""
    checkpoint: str = "ck"
    seed: int = 0

    @property
    def declarations(self) -> Path:
        return self.base.parent / "declared"


@dataclass(frozen=True)
class Outcome:
    """`last`: the last committed batch; `error`: the parts of a ClashError, `phase`: whether the start or a batch raised it; `raw`: any
    other exception. Nothing of it: the process was killed."""

    last: int | None = None
    error: Mapping[str, str] | None = None
    phase: str = ""
    raw: str = ""

    @property
    def killed(self) -> bool:
        return self.last is None and self.error is None and not self.raw

    @property
    def text(self) -> str:
        return " | ".join((self.error or {}).values())


class Running(Protocol):
    """A program that runs."""

    def kill(self, victim: str) -> None:
        """kill -9, if the victim is there."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def wait(self) -> Outcome: ...


class Place(Protocol):
    """Where programs run."""

    def feed(self, root: Path, case: Case, files: range) -> None:
        """From now on these files of every stream can be read."""

    def begin(self, start: Start, second: bool = False) -> Running:
        """`second`: beside another one that runs."""

    def batches(self, base: Path, case: Case) -> dict[str, dict[int, int]]:
        """By stream and file, the batch that read it, as far as that is on record."""

    def damaged(self, file: Path, before: bytes, after: bytes) -> None:
        """The history has damaged the file: what it is now is no record of batches, but what it was."""

    def forget(self, base: Path) -> None:
        """What was known of a history that is over, or starts anew."""

    def close(self) -> None: ...


def parts(error: ClashError) -> dict[str, str]:
    return {"kind": type(error).__name__, "what": error.what, "detail": error.detail, "hint": error.hint}


def outcome_of(answer: Mapping[str, Any] | None) -> Outcome:
    return Outcome() if answer is None else Outcome(**answer)
