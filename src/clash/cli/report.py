"""How a user's mistake is reported: what is wrong, the detail, and a hint, on stderr; never a stack trace."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from clash.errors import ClashError, OptionError

EXIT_CODE = 2  # of a user's mistake
_UsageError: Any = typer.BadParameter.__base__  # an unknown option, a value outside its range; typer does not export it by name


class ReportingGroup(TyperGroup):
    """A group of commands that reports both a command's ClashError and what typer itself refuses in three parts."""

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return _reporting(lambda: super(ReportingGroup, self).make_context(info_name, args, parent, **extra))

    def invoke(self, ctx: Any) -> Any:
        return _reporting(lambda: super(ReportingGroup, self).invoke(ctx))


def _reporting(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ClashError as error:
        show_error(error)
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise  # no command was given: typer shows the help
        show_error(usage_error(error))
    raise typer.Exit(EXIT_CODE) from None


def show_error(error: ClashError) -> None:
    """Prints the three parts on stderr."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), (error.what, "bold")), soft_wrap=True)
    for label, style, words in (("detail", "yellow", error.detail), ("hint", "green", error.hint)):
        if words:
            console.print(Text.assemble((f"  {label}: ", style), words.replace("\n", "\n    ")), soft_wrap=True)


def usage_error(error: Any) -> ClashError:
    """Typer's own message about an option, in three parts."""
    command = error.ctx.command_path if error.ctx is not None else "clash"
    help_hint = f"`{command} --help` lists what there is"
    similar = [name for name in getattr(error, "possibilities", None) or () if name]
    if hasattr(error, "option_name"):
        if similar or "no such" in error.message.lower():
            hint = f"did you mean {' or '.join(similar)}?" if similar else help_hint
            return OptionError("unknown option", f"{command} {error.option_name}", hint)
        detail = error.option_name if error.ctx is None else f"{command} {error.option_name}"
        return OptionError(_lower_case(error.message), detail, help_hint)
    if getattr(error, "param", None) is not None:
        name = next((name for name in reversed(error.param.opts) if name.startswith("--")), error.param.opts[0])
        return OptionError(f"a value that {name} does not take", _lower_case(error.message), help_hint)
    return OptionError(_lower_case(error.message), command, help_hint)


def _lower_case(message: str) -> str:
    """A message of typer or pydantic in the style of ours: no capital at its beginning, no full stop at its end."""
    message = message.removeprefix("Value error, ").replace("Input should", "it should").rstrip(".")
    return message[:1].lower() + message[1:]


def replace_unprintable_characters() -> None:
    """Makes a terminal without » and ⋈ show them as ?, instead of failing with an encoding error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
