"""`clash bench`: hands over to the benchmarks, which are in the repository (`bench/clash_bench`) and not in the installed package."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from clash.errors import ClashError

_CLONE = Path(__file__).resolve().parents[3]  # the clone that an editable install points at; something else in a normal install


class _BenchmarkGroup(TyperGroup):
    """The commands of `clash_bench.cli`, loaded only once `clash bench` is what the user called."""

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        folder = str(find_benchmarks())
        if folder not in sys.path:
            sys.path.append(folder)
        benchmarks: Any = typer.main.get_command(import_module("clash_bench.cli").app)
        self.commands = dict(benchmarks.commands)
        return super().make_context(info_name, args, parent, **extra)


app = typer.Typer(
    cls=_BenchmarkGroup,
    no_args_is_help=True,
    help="Run a benchmark of the repository; CSV and plots go under bench/results.",
)


def find_benchmarks(clone: Path = _CLONE) -> Path:
    """The folder that holds the package `clash_bench`: in the clone that is installed, or in the working directory."""
    candidates = [clone / "bench", Path.cwd() / "bench"]
    for folder in candidates:
        if (folder / "clash_bench" / "cli.py").is_file():
            return folder
    raise ClashError(
        "the benchmarks are not part of the installed package",
        f"they are in the repository, in its folder bench; not found: {', '.join(map(str, dict.fromkeys(candidates)))}",
        "clone the repository, run `pip install --editable '.[bench]'` in the clone, and then `clash bench` again",
    )
