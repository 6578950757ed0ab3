"""The command `clash` itself: its options and its commands."""

from __future__ import annotations

from typing import Annotated

import typer

from clash import __version__
from clash.cli import bench, check, checkpoint, demo, explain, init, remote, run_job
from clash.cli.report import ReportingGroup, replace_unprintable_characters

app = typer.Typer(
    name="clash",
    cls=ReportingGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Many continuous multi-way stream joins, answered by one shared topology on Spark.",
    epilog="Start with `clash demo`. For a job of your own: `clash init DIR`, then `clash run DIR/job.yaml`.",
)
_JOBS, _RUNS, _MORE = "Jobs", "A job that runs", "More"
app.command("init", rich_help_panel=_JOBS)(init.init)
app.command("check", rich_help_panel=_JOBS)(check.check)
app.command("explain", epilog=explain.EXAMPLE, rich_help_panel=_JOBS)(explain.explain)
app.command("diff", rich_help_panel=_JOBS)(check.diff)
app.command("run", epilog=run_job.EXIT_CODES, rich_help_panel=_JOBS)(run_job.run)
app.command("status", rich_help_panel=_RUNS)(remote.status)
app.command("queries", rich_help_panel=_RUNS)(remote.queries)
app.add_typer(remote.query_app, name="query", rich_help_panel=_RUNS)
app.add_typer(remote.table_app, name="table", rich_help_panel=_RUNS)
app.command("what-if", rich_help_panel=_RUNS)(remote.what_if)
app.command("rescale", rich_help_panel=_RUNS)(remote.rescale)
app.command("results", rich_help_panel=_RUNS)(remote.results)
app.command("generations", rich_help_panel=_RUNS)(remote.generations)
app.command("demo", rich_help_panel=_MORE)(demo.demo)
app.command("schema", rich_help_panel=_MORE)(check.schema)
app.command("script", rich_help_panel=_MORE)(check.script)
app.add_typer(checkpoint.app, name="checkpoint", rich_help_panel=_MORE)
app.add_typer(bench.app, name="bench", rich_help_panel=_MORE)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"clash {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, metavar="", help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of `clash` itself."""


def main() -> None:
    """The entry point."""
    replace_unprintable_characters()
    app()
