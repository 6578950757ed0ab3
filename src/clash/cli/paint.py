"""Colours for a plan's text on a terminal; elsewhere the text is printed unchanged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_QUERY = re.compile(r"^(\w+)(?= = )")
_HEADING = re.compile(r"^[A-Z]{4,}(?! = ).*")
_DIMMED = re.compile(r"^\s+(on|within|shares|of which) |^ {5}\S+ = ")
_NOTE = re.compile(r"(?<=   )shares .*")
_STYLES = (
    (re.compile(r"»"), "yellow"),
    (re.compile(r"›"), "green"),
    (re.compile(r"⇉"), "bold red"),
    (re.compile(r"\[[^\]\s]*\]"), "cyan"),
    (re.compile(r"proven optimal|each query alone optimal"), "green"),
    (re.compile(r"█+"), "yellow"),
    (re.compile(r"^▸ \w+"), "bold"),
)


def show_plan(console: Console, text: str) -> None:
    """Prints with colours if the console is a terminal. Lines are never wrapped or cut, because the text has its own layout."""
    if console.is_terminal:
        console.print(paint(text), soft_wrap=True, end="")
    else:
        console.file.write(text)


def paint(text: str) -> Text:
    """The same characters, with styles."""
    from rich.text import Text

    painted = Text(no_wrap=True)
    for line in text.splitlines(keepends=True):
        painted.append_text(_paint_line(line))
    return painted


def _paint_line(line: str) -> Text:
    from rich.text import Text

    if _DIMMED.match(line):
        return Text(line, style="dim")
    styled = Text(line)
    for pattern, style in ((_HEADING, "bold"), (_QUERY, "bold cyan"), (_NOTE, "dim"), *_STYLES):
        for match in pattern.finditer(line):
            styled.stylize(style, *match.span())
    if line.startswith("▸"):  # the strategy of this plan
        styled.highlight_regex(r"█+", "green")
    return styled
