"""Colours for a plan's text on a terminal; anywhere else the text stays as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_QUERY = re.compile(r"^(\w+)(?= = )")
_BLOCK = re.compile(r"^[A-Z]{4,}(?! = ).*")
_QUIET = re.compile(r"^\s+(on|within|shares|of which) |^ {5}\S+ = ")
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
    """Coloured where the console is a terminal. Never wrapped or cut by us: the text has a layout of its own."""
    if console.is_terminal:
        console.print(paint(text), soft_wrap=True, end="")
    else:
        console.file.write(text)


def paint(text: str) -> Text:
    """The same characters, with styles."""
    from rich.text import Text

    painted = Text(no_wrap=True)
    for line in text.splitlines(keepends=True):
        painted.append_text(_line(line))
    return painted


def _line(line: str) -> Text:
    from rich.text import Text

    if _QUIET.match(line):
        return Text(line, style="dim")
    styled = Text(line)
    for pattern, style in ((_BLOCK, "bold"), (_QUERY, "bold cyan"), (_NOTE, "dim"), *_STYLES):
        for found in pattern.finditer(line):
            styled.stylize(style, *found.span())
    if line.startswith("▸"):  # the strategy that was asked for
        styled.highlight_regex(r"█+", "green")
    return styled
