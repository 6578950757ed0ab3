"""Hooks of mkdocs: pages link to files of the repository that are not pages, and the site gets a copy of those that it shows."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
_OUTSIDE = re.compile(r"\]\(\.\./((?:bench/results|examples)/[^)#\s]+)")


def on_files(files: Any, config: Any) -> Any:
    """Adds every picture and example outside of docs/ that a page links to, under the same path below the site's root."""
    for page in list(files.documentation_pages()):
        for path in _OUTSIDE.findall(page.content_string):
            if files.get_file_from_path(path) is None:
                files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """On the site, the repository's root and docs/ are one folder."""
    if len(PurePosixPath(page.file.src_uri).parts) > 1:
        return markdown
    return _OUTSIDE.sub(r"](\1", markdown)
