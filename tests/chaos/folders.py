"""The files of a checkpoint and of its results: listed, damaged, copied, put back, and the disk that they are on."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from clash.state.paths import is_temporary

from .actions import Damage

CHECKPOINT, RESULTS, DISK = "ck", "out", "disk"
OURS, SPARKS = "clash", "spark"
DISK_SIZE = "32m"
_RANDOM_PART = re.compile(r"[0-9a-f]{8}")  # of the names of files: attempts differ between two runs of one seed
_PUBLISHED = re.compile(rf"(?:{OURS}/(?:results|late)/[^/]+|[^/]+)/part-[^/]*\.parquet")


def files(folder: Path) -> list[Path]:
    """All files, in an order that does not depend on the random parts of names."""
    found = [file for file in folder.rglob("*") if file.is_file() and file.name != "lock"]
    return sorted(found, key=lambda file: (_RANDOM_PART.sub("", str(file)), str(file)))


def fingerprint(*folders: Path) -> dict[str, str]:
    """What is on disk. The lock's file and leftovers of killed writers do not count: the one is empty, the others nobody reads."""
    return {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest()
        for folder in folders
        for file in files(folder)
        if not is_temporary(file.name)
    }


def candidates(root: Path, action: Damage) -> list[list[Path]]:
    """The files that the action may damage, by kind: each kind is as likely as another, however many files it has."""
    base = root / RESULTS if action.area == "results" else root / CHECKPOINT / (SPARKS if action.area == "spark" else OURS)
    kinds: dict[str, list[Path]] = {}
    for file in files(base):
        if is_temporary(file.name) or (action.how == "digit" and file.suffix != ".json" and action.area != "spark"):
            continue
        parts = file.relative_to(base).parts
        kinds.setdefault(parts[0] if len(parts) > 1 else file.name, []).append(file)
    return [kinds[kind] for kind in sorted(kinds)]


def chosen(root: Path, action: Damage) -> Path | None:
    kinds = candidates(root, action)
    if not kinds:
        return None
    at = action.which * len(kinds)
    kind = kinds[int(at)]
    return kind[int((at - int(at)) * len(kind))]


def is_published(root: Path, file: Path) -> bool:
    """A result that readers see: it belongs to the user."""
    for folder in (root / CHECKPOINT, root / RESULTS):
        if file.is_relative_to(folder):
            return _PUBLISHED.fullmatch(str(file.relative_to(folder))) is not None
    return False


def component(base: Path, file: Path) -> Path:
    """The folder of a half of the checkpoint, or of the results, that the file is somewhere below: such as `ck/clash/generations`."""
    parts = file.relative_to(base).parts
    return base.joinpath(*parts[: min(3 if parts[0] == CHECKPOINT else 2, len(parts) - 1)])


def damage(file: Path, action: Damage, copies: list[Path], root: Path) -> bool:
    """Whether the file is another one afterwards."""
    whole = file.read_bytes()
    if action.how == "delete":
        file.unlink()
        return True
    changed = _damaged(file, whole, action, copies, root)
    if changed is None or changed == whole:
        return False
    file.write_bytes(changed)
    return True


def _damaged(file: Path, whole: bytes, action: Damage, copies: list[Path], root: Path) -> bytes | None:
    at = int(action.where * len(whole))
    if action.how == "older":
        older = [copy / file.relative_to(root) for copy in copies]
        found = [other.read_bytes() for other in older if other.is_file()]
        return next((content for content in found if content != whole), None)
    if action.how == "swap":
        beside = [other for other in files(file.parent) if other != file and other.suffix == file.suffix]
        return beside[int(action.where * len(beside))].read_bytes() if beside else None
    if not whole:
        return None
    if action.how == "cut":
        return whole[:at]
    if action.how == "digit":
        digits = [n for n, byte in enumerate(whole) if 48 <= byte < 58]
        if not digits:
            return None
        at = digits[int(action.where * len(digits))]
        return whole[:at] + bytes([48 + (whole[at] - 47) % 10]) + whole[at + 1 :]
    bit = 1 << Random(at).randrange(8)
    return whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]


def replace_tree(target: Path, source: Path | None) -> None:
    """`target` becomes as `source`, or empty: its folder itself stays."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in target.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    if source is not None and source.exists():
        shutil.copytree(source, target, dirs_exist_ok=True)


def remove(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def copy_running(source: Path, target: Path) -> None:
    """As `cp -r` of what changes meanwhile: what has gone is left out."""
    for file in sorted(source.rglob("*")):
        copied = target / file.relative_to(source)
        try:
            content = file.read_bytes() if file.is_file() else None
        except OSError:
            continue
        if content is not None:
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(content)


class Disk:
    """A small disk of its own for checkpoint and results, where the machine lets us mount one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "none", folder], capture_output=True, check=False)
        self.is_mounted = made.returncode == 0

    def fill(self, left: int) -> None:
        """Up to so many KiB."""
        with (self.folder / "ballast").open("wb", buffering=0) as ballast:
            for size in (1 << 20, 1 << 12):
                try:
                    while ballast.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue
            ballast.truncate(max(0, ballast.tell() - (left << 10)))

    def free(self) -> None:
        (self.folder / "ballast").unlink(missing_ok=True)

    def remount(self, mode: str) -> bool:
        """`ro` is refused while a file is open for writing."""
        return subprocess.run(["mount", "-o", f"remount,{mode}", self.folder], capture_output=True, check=False).returncode == 0

    def close(self) -> None:
        if self.is_mounted:
            subprocess.run(["umount", "-l", self.folder], check=True)


@contextmanager
def small_disk(root: Path) -> Iterator[Disk]:
    disk = Disk(root / DISK)
    try:
        yield disk
    finally:
        disk.close()
