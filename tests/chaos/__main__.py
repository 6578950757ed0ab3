"""`python -m tests.chaos FIRST COUNT [--where inprocess|local|cluster] [--actions a,b,c] [--minutes N] [--keep FOLDER]`.

Plays histories by their seeds, and prints those that go wrong: the seed, the fewest actions that still go wrong, and what is wrong. Their
folders are kept.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from .actions import KINDS, History
from .folders import DISK, small_disk
from .generate import PLACES, chaos
from .places import open_place
from .play import Player, Told, WrongError
from .shrink import fewest
from .starts import Place


def played(history: History, place: Place, keep: Path | None = None) -> tuple[Told, str | None]:
    """What happened, and what went wrong."""
    root = Path(tempfile.mkdtemp(prefix=f"chaos-{history.seed}-"))
    wrong = None
    with small_disk(root) as disk:
        player = Player(history, root, place, disk)
        try:
            player.play()
        except WrongError as error:
            wrong = str(error)
            if keep is not None:
                disk.remount("rw")
                shutil.copytree(root, keep / root.name, dirs_exist_ok=True)
                wrong = f"{wrong}\nkept in {keep / root.name / DISK}"
    shutil.rmtree(root)
    return player.told, wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.chaos", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--where", choices=PLACES, default=PLACES[0])
    parser.add_argument("--actions", type=lambda text: [KINDS[name] for name in text.split(",")])
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "chaos-kept")
    parser.add_argument("--shrink", action="store_true")
    asked = parser.parse_args()
    began, ran, wrong = time.monotonic(), 0, 0
    counts, refusals = Counter[str](), Counter[str]()
    with open_place(asked.where) as place:
        for seed in range(asked.first, asked.first + asked.count):
            if time.monotonic() - began > asked.minutes * 60:
                break
            history = chaos(seed, asked.where, asked.actions)
            told, what = played(history, place, asked.keep)
            ran, counts, refusals = ran + 1, counts + told.counts, refusals + told.refusals
            if what is not None:
                wrong += 1
                sys.stdout.write(f"{history}\n  {what}\n")
                if asked.shrink:
                    small = fewest(history, lambda smaller: played(smaller, place)[1])
                    sys.stdout.write(f"  fewest actions: {small}\n")
            elif ran % 20 == 0:
                sys.stdout.write(f"{ran} histories, {wrong} wrong, {time.monotonic() - began:.0f} s\n")
            sys.stdout.flush()
    sys.stdout.write(f"{ran} histories in place {asked.where}, {wrong} wrong, {time.monotonic() - began:.0f} s\n")
    for title, of in (("actions", counts), ("refusals", refusals)):
        sys.stdout.write("".join(f"  {title}: {count:6} {name}\n" for name, count in of.most_common()))
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
