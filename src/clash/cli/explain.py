"""`clash explain`: shows the plan of a job; needs no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clash.errors import OptionError, QueryError

if TYPE_CHECKING:
    from clash.model.statistics import Statistics
    from clash.optimizer import Plan

EXAMPLE = "For example: `clash explain --workers 5 -q 'q1=R(a), S(a,b), T(b)' -q 'q2=S(b), T(b,c), U(c)'`"


def explain(
    job: Annotated[
        Path | None,
        typer.Argument(
            metavar="JOB",
            help="A file of SQL: each query below a line `-- name: q1`; a line `-- statistics: file.json` names its statistics.",
            show_default=False,
        ),
    ] = None,
    query: Annotated[
        list[str] | None, typer.Option("--query", "-q", metavar="NAME=SQL", help="A further query; may be repeated.", show_default=False)
    ] = None,
    statistics: Annotated[
        Path | None,
        typer.Option(
            help="JSON with any of rates, selectivities, default_rate, default_selectivity, sizes; instead of the job file's.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[Literal["text", "json", "dot"], typer.Option("--format", "-f", help="How to write the plan.")] = "text",
    workers: Annotated[int, typer.Option(min=1, help="Workers that the stores are partitioned over.")] = 4,
    strategy: Annotated[
        Literal["independent", "shared", "global"],
        typer.Option(
            help="Each query with its own stores; each query planned alone, equal parts run once; or all queries planned together."
        ),
    ] = "global",
    cost: Annotated[
        Literal["probe", "full"],
        typer.Option(help="What is counted: probes alone, as in the paper; or storing, memory, network and rounds too."),
    ] = "full",
    layouts: Annotated[
        Literal["one", "many"], typer.Option(help="Whether a store has one layout, or may have copies in several layouts.")
    ] = "one",
    mirs: Annotated[bool, typer.Option("--mirs/--no-mirs", metavar="", help="Whether intermediate results may be stored.")] = True,
    time_limit: Annotated[
        float,
        typer.Option(
            min=0.0,
            metavar="SECONDS",
            help="How long to plan; shows the best plan found by then, and the bound proven by then. 0: the heuristic alone.",
        ),
    ] = 10.0,
    formulation: Annotated[
        Literal["published", "compact"],
        typer.Option(help="The integer program: the paper's, or a faster one. Both have the same optimum."),
    ] = "compact",
) -> None:
    """Show the plan for a set of queries: probe orders, stores, what is shared, and what it costs."""
    from clash.cli.jobfile import Job, merge, parse_assignments, read_job

    job_file = Job({}) if job is None else read_job(job)
    queries = merge(job_file.queries, parse_assignments(query or ()))
    if not queries:
        raise OptionError("no query to explain", "", 'give a job file, or --query "q1=SELECT …"; `clash demo` shows an example')

    from rich.console import Console

    import clash
    from clash.cli.paint import show_plan

    statistics_file = statistics or job_file.statistics
    loaded = clash.Statistics() if statistics_file is None else clash.Statistics.load(statistics_file)
    try:
        plan = clash.optimize(
            queries,
            loaded,
            workers=workers,
            strategy=strategy,
            formulation=formulation,
            cost=cost,
            layouts=layouts,
            mirs=mirs,
            time_limit=time_limit,
        )
    except QueryError as error:
        raise job_file.locate(error) from None
    _note_unused(plan, loaded)
    if format == "text":
        show_plan(Console(highlight=False), plan.explain())
    else:
        typer.echo(plan.explain(format=format))


def _note_unused(plan: Plan, statistics: Statistics) -> None:
    """Notes rates of streams that no query reads: mostly misspelt names, which would go unnoticed."""
    unused = sorted(set(statistics.rates) - set(plan.streams))
    if unused:
        typer.echo(f"note: the statistics have rates of streams that no query reads: {', '.join(unused)}", err=True)
