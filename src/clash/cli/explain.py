"""`clash explain`: shows the plan of a job; needs no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from clash.errors import ClashError, OptionError

if TYPE_CHECKING:
    from clash.model.statistics import Statistics
    from clash.optimizer import Plan

EXAMPLE = "For example: `clash explain --workers 5 -q 'q1=R(a), S(a,b), T(b)' -q 'q2=S(b), T(b,c), U(c)'`"


def explain(
    job: Annotated[
        Path | None,
        typer.Argument(
            metavar="JOB",
            help="A job file, job.yaml; or a file of SQL: each query below a line `-- name: q1`, and `-- statistics: file.json`.",
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
    workers: Annotated[
        int | None, typer.Option(min=1, help="Workers that the stores are partitioned over; 4 unless the job says.", show_default=False)
    ] = None,
    strategy: Annotated[
        Literal["independent", "shared", "global"] | None,
        typer.Option(
            help="Each query with its own stores; each query planned alone, equal parts run once; or all queries planned together (global,"
            " unless the job says).",
            show_default=False,
        ),
    ] = None,
    cost: Annotated[
        Literal["probe", "full"] | None,
        typer.Option(
            help="What is counted: probes alone, as in the paper; or storing, memory, network and rounds too (full, unless the job says).",
            show_default=False,
        ),
    ] = None,
    layouts: Annotated[
        Literal["one", "many"] | None,
        typer.Option(help="Whether a store has one layout (unless the job says), or may have copies in several.", show_default=False),
    ] = None,
    mirs: Annotated[
        bool | None,
        typer.Option(
            "--mirs/--no-mirs", metavar="", help="Whether intermediate results may be stored; yes unless the job says.", show_default=False
        ),
    ] = None,
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
    worth: Annotated[
        bool,
        typer.Option("--worth", help="Show what intermediate results, sharing and layouts are worth. Takes up to four further plans."),
    ] = False,
    why: Annotated[
        str | None,
        typer.Option(
            metavar="QUERY",
            help="What keeps this query expensive, instead of the plan: its dearest steps, who shares them, and what it nearly shares.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show the plan for a set of queries: probe orders, stores, what is shared, and what it costs."""
    from clash.cli.explained_job import explained_job
    from clash.cli.jobfile import merge, parse_assignments

    source = explained_job(job)
    queries = merge(source.queries, parse_assignments(query or ()))
    if not queries:
        raise OptionError("no query to explain", "", 'give a job file, or --query "q1=SELECT …"; `clash demo` shows an example')

    from rich.console import Console

    import clash
    from clash.cli.paint import show_plan

    loaded = source.statistics() if statistics is None else clash.Statistics.load(statistics)
    given = {"workers": workers, "strategy": strategy, "cost": cost, "layouts": layouts, "mirs": mirs}
    options: dict[str, Any] = {**source.options, **{name: value for name, value in given.items() if value is not None}}
    try:
        plan = clash.optimize(
            queries, loaded, streams=source.streams, windows=source.windows, formulation=formulation, time_limit=time_limit, **options
        )
    except ClashError as error:
        raise source.locate(error) from None
    for note in source.notes:
        typer.echo(f"note: {note}", err=True)
    _note_unused(plan, loaded)
    if why is not None:
        if format == "dot":
            raise OptionError("--why has no picture", "--format dot", "write --format text or json")
        typer.echo(plan.why(why, format), nl=False)
    elif format == "text":
        show_plan(Console(highlight=False), plan.explain(worth=worth))
    else:
        typer.echo(plan.explain(format=format, worth=worth))


def _note_unused(plan: Plan, statistics: Statistics) -> None:
    """Notes rates of streams that no query reads: mostly misspelt names, which would go unnoticed."""
    unused = sorted(set(statistics.rates) - set(plan.streams))
    if unused:
        typer.echo(f"note: the statistics have rates of streams that no query reads: {', '.join(unused)}", err=True)
