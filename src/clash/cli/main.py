"""The command `clash` itself: its options, its commands, and how a user's mistake is shown."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from clash.cli import bench, demo, explain
from clash.cli.report import show_error
from clash.errors import ClashError

MISTAKE = 2  # the exit code of a user's mistake, as for an unknown option


class _Group(TyperGroup):
    """Ends with what, detail and hint where a command raises a ClashError, also under a test runner."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ClashError as error:
            show_error(error)
            raise typer.Exit(MISTAKE) from None


app = typer.Typer(
    name="clash",
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Many continuous multi-way stream joins, answered by one shared topology on Spark.",
)
app.command("explain")(explain.explain)
app.command("demo")(demo.demo)
app.add_typer(bench.app, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"clash {version('clash-on-spark')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    """Options of `clash` itself."""


def main() -> None:
    """The entry point."""
    app()
