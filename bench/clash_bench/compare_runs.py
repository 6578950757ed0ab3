"""Two commits of the repository side by side in a temporary folder, and runs of a benchmark of either in a process of its own.

Both use the Python and the packages of the environment that is active; only `clash` and `clash_bench` are those of the commit.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from clash.errors import ClashError, OptionError

CLONE = Path(__file__).resolve().parents[2]
_PATHS = "import clash, clash_bench; print(clash.__file__); print(clash_bench.__file__)"
_LINES = 12  # of the output of a run that failed


@dataclass(frozen=True)
class Commit:
    """A commit to measure. `name`: as the user wrote it."""

    name: str
    identity: str

    def __str__(self) -> str:
        return f"{self.name} ({self.identity[:10]})"


def find_commits(names: Sequence[str], clone: Path = CLONE) -> list[Commit]:
    """The commits of these names in the clone that the benchmarks are run from."""
    inside = _git(clone, "rev-parse", "--is-inside-work-tree")
    if inside.returncode != 0 or inside.stdout.strip() != "true":
        raise ClashError("the benchmarks are not in a clone of the repository", str(clone), "run `clash bench compare` from a git clone")
    found = []
    for name in names:
        ran = _git(clone, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        if ran.returncode != 0:
            hint = "write a branch, a tag or a hash that `git log` knows, after `git fetch` if it is of another clone"
            raise OptionError("there is no such commit", f"{name!r} in {clone}", hint)
        found.append(Commit(name, ran.stdout.strip()))
    return found


@contextmanager
def checked_out(commits: Sequence[Commit], clone: Path = CLONE) -> Iterator[list[Path]]:
    """A git worktree for each commit, removed at the end of the block."""
    with TemporaryDirectory(prefix="clash-compare-", ignore_cleanup_errors=True) as name:
        folders = [Path(name) / f"{number}-{commit.identity[:10]}" for number, commit in enumerate(commits)]
        try:
            for commit, folder in zip(commits, folders, strict=True):
                ran = _git(clone, "worktree", "add", "--quiet", "--detach", str(folder), commit.identity)
                if ran.returncode != 0:
                    raise ClashError("a commit cannot be checked out", f"{commit}: {ran.stderr.strip()}", "is there room on the disk?")
                _refuse_other_packages(commit, folder)
            yield folders
        finally:
            for folder in folders:
                _git(clone, "worktree", "remove", "--force", str(folder))


def run_benchmark(commit: Commit, folder: Path, arguments: Sequence[str], file: str) -> list[dict[str, str]]:
    """Runs `clash bench` of a commit with these arguments, and returns the lines of the CSV file that it writes."""
    with TemporaryDirectory(prefix="clash-compare-out-") as out:
        command = [sys.executable, "-m", "clash_bench", *arguments, "--out", out]
        ran = subprocess.run(command, cwd=folder, env=_environment(folder), capture_output=True, text=True, check=False)
        path = Path(out) / file
        if ran.returncode != 0 or not path.exists():
            last = "\n".join((ran.stdout + ran.stderr).strip().splitlines()[-_LINES:])
            hint = "does that commit have this benchmark, and does it need the packages of the active environment?"
            raise ClashError("a run of the benchmark failed", f"{commit}: {last}", hint)
        with path.open(newline="", encoding="utf-8") as lines:
            return list(csv.DictReader(lines))


def _refuse_other_packages(commit: Commit, folder: Path) -> None:
    """An environment that puts another `clash` before ours would compare a commit with itself."""
    ran = subprocess.run([sys.executable, "-c", _PATHS], cwd=folder, env=_environment(folder), capture_output=True, text=True, check=False)
    found = ran.stdout.split()
    if ran.returncode != 0:
        last = (ran.stderr.strip().splitlines() or ["no output"])[-1]
        raise ClashError("a commit cannot be measured", f"{commit}: {last}", "choose one that has the package bench/clash_bench")
    if not all(Path(path).resolve().is_relative_to(folder.resolve()) for path in found):
        raise ClashError(
            "the environment hides the packages of a commit", f"{commit}: {', '.join(found)}", "use an environment without them"
        )


def _environment(folder: Path) -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder / "src"), str(folder / "bench")))}


def _git(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["git", "-C", str(clone), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ClashError("git is missing", "the command `git` is not on the PATH", "install git") from None
