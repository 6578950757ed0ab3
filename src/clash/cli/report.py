"""How a mistake looks on screen."""

from __future__ import annotations

from clash.errors import ClashError


def show_error(error: ClashError) -> None:
    """What went wrong, the piece and its place, what to write instead; on stderr."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), (error.what, "bold")), soft_wrap=True)
    for label, style, words in (("detail", "yellow", error.detail), ("hint", "green", error.hint)):
        if words:
            console.print(Text.assemble((f"  {label}: ", style), words.replace("\n", "\n    ")), soft_wrap=True)
