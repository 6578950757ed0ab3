"""`clash explain`: the plan of a job, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from clash.errors import OptionError


def explain(
    job: Annotated[
        Path | None,
        typer.Argument(
            help="A file of SQL: each query below a line `-- name: q1`; optionally `-- statistics: file.json`.", show_default=False
        ),
    ] = None,
    query: Annotated[
        list[str] | None, typer.Option("--query", "-q", metavar="NAME=SQL", help="One more query; may be repeated.", show_default=False)
    ] = None,
    statistics: Annotated[
        Path | None,
        typer.Option(
            help="JSON with any of rates, selectivities, default_rate, default_selectivity, sizes. Wins over the job file's.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[Literal["text", "json", "dot"], typer.Option("--format", "-f", help="How to write the plan.")] = "text",
    workers: Annotated[int, typer.Option(min=1, help="Workers that the stores are spread over.")] = 4,
    strategy: Annotated[
        Literal["independent", "shared", "global"], typer.Option(help="Each query alone; alone, equal parts run once; all at once.")
    ] = "global",
    cost: Annotated[
        Literal["probe", "full"], typer.Option(help="Probes alone, as in the paper; or storing, memory and rounds too.")
    ] = "full",
    layouts: Annotated[Literal["one", "many"], typer.Option(help="Layouts that a store may be kept under.")] = "one",
    mirs: Annotated[bool, typer.Option("--mirs/--no-mirs", help="Whether intermediate results may be stored.")] = True,
    time_limit: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="The solver's time; the best plan by then is shown.")
    ] = 10.0,
    formulation: Annotated[
        Literal["published", "compact"], typer.Option(help="The integer program: the paper's, or the fast one.")
    ] = "compact",
) -> None:
    """Show the plan for a set of queries: probe orders, stores, what is shared, and what it costs."""
    from clash.cli.jobfile import Job, merge, parse_assignments, read_job

    written = Job({}) if job is None else read_job(job)
    queries = merge(written.queries, parse_assignments(query or ()))
    if not queries:
        raise OptionError("no query to explain", "", 'give a job file, or --query "q1=SELECT …"; `clash demo` shows an example')

    import clash

    source = statistics or written.statistics
    plan = clash.optimize(
        queries,
        clash.Statistics() if source is None else clash.Statistics.load(source),
        workers=workers,
        strategy=strategy,
        formulation=formulation,
        cost=cost,
        layouts=layouts,
        mirs=mirs,
        time_limit=time_limit,
    )
    typer.echo(plan.explain(format=format))
