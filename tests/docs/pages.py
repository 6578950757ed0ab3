"""Code blocks of the documentation, and the places that stand for those in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^(?:<!-- not run: (?P<reason>.+?) -->\n+)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    """Of the page, for messages."""
    language: str
    text: str
    not_run: str | None
    """Why a block is not run: the comment `<!-- not run: … -->` above it. It must still be valid Python."""


def blocks(page: Path, language: str) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        if match["language"] == language:
            line = text.count("\n", 0, match.start("text"))
            found.append(Block(page.name, line, language, match["text"], match["reason"]))
    return found


def pages_with(language: str) -> list[Path]:
    return [page for page in sorted(DOCS.glob("*.md")) if blocks(page, language)]
