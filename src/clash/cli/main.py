"""The command `clash` itself: its options, its commands, and how a user's mistake is shown."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from clash.cli import bench, demo, explain
from clash.cli.report import show_error, usage_error
from clash.errors import ClashError

MISTAKE = 2  # the exit code of a user's mistake
_UsageError: Any = typer.BadParameter.__base__  # an unknown option, a value outside its range; typer does not export it by name


class _Group(TyperGroup):
    """Ends every mistake with what, detail and hint: a ClashError of a command, and what typer itself refuses."""

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return _reporting(lambda: super(_Group, self).make_context(info_name, args, parent, **extra))

    def invoke(self, ctx: Any) -> Any:
        return _reporting(lambda: super(_Group, self).invoke(ctx))


def _reporting(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except ClashError as error:
        show_error(error)
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise  # no command at all: typer shows the help
        show_error(usage_error(error))
    raise typer.Exit(MISTAKE) from None


app = typer.Typer(
    name="clash",
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Many continuous multi-way stream joins, answered by one shared topology on Spark.",
    epilog="Start with `clash demo`. For your own queries: `clash explain --help`.",
)
app.command("explain", epilog=explain.EXAMPLE)(explain.explain)
app.command("demo")(demo.demo)
app.add_typer(bench.app, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"clash {version('clash-on-spark')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, metavar="", help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of `clash` itself."""


def main() -> None:
    """The entry point. On a terminal without » and ⋈ they show as ? rather than as a stack trace."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()
