"""`clash bench NAME`: the benchmarks, each a module of `clash.bench` with a function `run`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from clash.errors import ClashError, OptionError

RESULTS = Path("bench/results")

app = typer.Typer(no_args_is_help=True, help="Measure; CSV and plots go under bench/results.")

Out = Annotated[Path, typer.Option(help="Where CSV files and plots go.")]


@app.command("ilp")
def ilp(
    sizes: Annotated[str, typer.Option(metavar="N,N,…", help="Relations per query.")] = "3,4,5",
    counts: Annotated[str, typer.Option(metavar="N,N,…", help="Queries per set.")] = "10,30,100",
    formulations: Annotated[str, typer.Option(metavar="NAME,…", help="published, compact.")] = "published,compact",
    layouts: Annotated[str, typer.Option(metavar="NAME,…", help="one, many.")] = "one,many",
    time_limit: Annotated[float, typer.Option(min=0.0, metavar="SECONDS", help="Per solve.")] = 60.0,
    repeat: Annotated[int, typer.Option(min=1, help="Query sets per line, each from its own seed.")] = 1,
    out: Out = RESULTS,
) -> None:
    """How long the planner takes, over 100 relations."""
    _run(
        "ilp",
        sizes=_numbers("sizes", sizes),
        counts=_numbers("counts", counts),
        formulations=_names("formulations", formulations, ("published", "compact")),
        layouts=_names("layouts", layouts, ("one", "many")),
        time_limit=time_limit,
        repeat=repeat,
        out=out,
    )


@app.command("paper-ilp")
def paper_ilp(
    repetitions: Annotated[int, typer.Option(min=1, help="Query sets per point.")] = 100,
    out: Out = RESULTS,
) -> None:
    """The paper's figures on cost, problem size and run time: ours drawn over theirs."""
    _run("paper_ilp", repetitions=repetitions, out=out)


def _run(module: str, **options: Any) -> None:
    try:
        run = import_module(f"clash.bench.{module}").run
    except ModuleNotFoundError as error:
        missing = error.name or "a module"
        if missing.split(".")[0] == "clash":
            raise ClashError("this benchmark is not part of this version", missing, "see `clash bench --help`") from None
        raise ClashError("a package is missing", missing, "pip install 'clash-on-spark[bench]'") from None
    run(**options)


def _numbers(option: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 0 < len(part) < 7 and int(part) > 0 for part in parts):
        raise OptionError(f"not a list of positive numbers: --{option}", repr(text), f"write --{option} 3,4,5")
    return tuple(int(part) for part in parts)


def _names(option: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(","))
    for part in parts:
        if part not in known:
            raise OptionError(f"unknown value of --{option}", repr(part), f"write one or more of {', '.join(known)}, with commas between")
    return parts
