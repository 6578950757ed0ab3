"""`python -m tests.chaos FIRST COUNT [--where inprocess|local|cluster] [--actions a,b,c] [--minutes N] [--keep FOLDER] [--shrink]`.

Plays histories by their seeds, and prints those that go wrong: the seed, its actions, and what is wrong; with --shrink also the fewest
actions that still go wrong. Their folders are kept. Counts at the end: of actions, of starts that ended or were killed, of refusals.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .actions import KINDS, History
from .folders import DISK, small_disk
from .generate import PLACES, chaos
from .places import open_place
from .play import Player
from .shrink import fewest
from .starts import Place
from .world import Told, WrongError


def played(history: History, place: Place, keep: Path | None = None) -> tuple[Told, str | None]:
    """What happened, and what went wrong. `keep`: where the folder of a history that goes wrong is copied to."""
    root = Path(tempfile.mkdtemp(prefix=f"chaos-{history.seed}-"))
    wrong = None
    try:
        with small_disk(root) as disk:
            player = Player(history, root, place, disk)
            try:
                player.play()
            except WrongError as error:
                wrong = str(error)
            except Exception:
                wrong = f"the chaos program itself failed\n{traceback.format_exc()}"
            if wrong is not None and keep is not None:
                disk.remount("rw")
                shutil.copytree(root, keep / root.name, dirs_exist_ok=True)
                wrong = f"{wrong}\nkept in {keep / root.name / DISK}"
    finally:
        place.forget(root / DISK)
        shutil.rmtree(root, ignore_errors=True)  # what was interrupted may still write
    return player.told, wrong


@dataclass
class Totals:
    """Of all histories so far."""

    where: str
    began: float = field(default_factory=time.monotonic)
    histories: int = 0
    wrong: int = 0
    told: Told = field(default_factory=Told)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def add(self, told: Told, what: str | None) -> None:
        self.histories += 1
        self.wrong += what is not None
        self.told.counts.update(told.counts)
        self.told.refusals.update(told.refusals)

    def __str__(self) -> str:
        return f"{self.histories} histories in place {self.where}, {self.wrong} wrong, {self.seconds:.0f} s"


def main() -> int:
    asked = _arguments()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)  # also where a shell has it ignored: what was counted is shown
    totals = Totals(asked.where)
    with suppress(KeyboardInterrupt), open_place(asked.where) as place:
        for seed in range(asked.first, asked.first + asked.count):
            if totals.seconds > asked.minutes * 60:
                break
            _play(chaos(seed, asked.where, asked.actions), place, totals, asked)
    _write(str(totals))
    for title, counts in (("actions", totals.told.counts), ("refusals", totals.told.refusals)):
        for name, count in counts.most_common():
            _write(f"  {title}: {count:6} {name}")
    return min(totals.wrong, 1)


def _play(history: History, place: Place, totals: Totals, asked: argparse.Namespace) -> None:
    told, what = played(history, place, asked.keep)
    totals.add(told, what)
    if what is not None:
        _write(f"{history}\n  {what}")
        if asked.shrink:
            _write(f"  fewest actions: {fewest(history, lambda smaller: played(smaller, place)[1])}")
    elif totals.histories % 20 == 0:
        _write(str(totals))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.chaos", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--where", choices=PLACES, default=PLACES[0])
    parser.add_argument("--actions", type=lambda text: [KINDS[name] for name in text.split(",")])
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "chaos-kept")
    parser.add_argument("--shrink", action="store_true")
    return parser.parse_args()


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
