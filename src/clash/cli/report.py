"""How a mistake looks on screen."""

from __future__ import annotations

from typing import Any

from clash.errors import ClashError, OptionError


def show_error(error: ClashError) -> None:
    """What went wrong, the piece and its place, what to write instead; on stderr."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), (error.what, "bold")), soft_wrap=True)
    for label, style, words in (("detail", "yellow", error.detail), ("hint", "green", error.hint)):
        if words:
            console.print(Text.assemble((f"  {label}: ", style), words.replace("\n", "\n    ")), soft_wrap=True)


def usage_error(error: Any) -> ClashError:
    """What typer says about an option, in our three parts."""
    where = error.ctx.command_path if error.ctx is not None else "clash"
    help_ = f"`{where} --help` lists what there is"
    near = [name for name in getattr(error, "possibilities", None) or () if name]
    if hasattr(error, "option_name"):
        if near or "no such" in error.message.lower():
            return OptionError("unknown option", f"{where} {error.option_name}", f"did you mean {' or '.join(near)}?" if near else help_)
        return OptionError(_plain(error.message), error.option_name if error.ctx is None else f"{where} {error.option_name}", help_)
    if getattr(error, "param", None) is not None:
        name = next((name for name in reversed(error.param.opts) if name.startswith("--")), error.param.opts[0])
        return OptionError(f"a value that {name} does not take", _plain(error.message), help_)
    return OptionError(_plain(error.message), where, help_)


def _plain(message: str) -> str:
    message = message.removeprefix("Value error, ").replace("Input should", "it should").rstrip(".")
    return message[:1].lower() + message[1:]
