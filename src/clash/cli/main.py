"""The command `clash` itself: its options and its commands."""

from __future__ import annotations

from typing import Annotated

import typer

from clash import __version__
from clash.cli import bench, checkpoint, demo, explain
from clash.cli.report import ReportingGroup, replace_unprintable_characters

app = typer.Typer(
    name="clash",
    cls=ReportingGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Many continuous multi-way stream joins, answered by one shared topology on Spark.",
    epilog="Start with `clash demo`. For your own queries: `clash explain --help`.",
)
app.command("explain", epilog=explain.EXAMPLE)(explain.explain)
app.command("demo")(demo.demo)
app.add_typer(checkpoint.app, name="checkpoint")
app.add_typer(bench.app, name="bench")


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
