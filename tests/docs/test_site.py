"""The documentation site builds without a warning and without network, and refers to nothing elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Python calls sitecustomize at its start: here it refuses every connection
_NO_NETWORK = """
import socket

def refused(*_):
    raise OSError("the site is built without network")

socket.socket.connect = socket.getaddrinfo = refused
"""


def test_the_site_builds_without_network(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_NO_NETWORK, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    home = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', home)
    assert loaded == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.name for page in sorted((ROOT / "docs").glob("*.md"))]
    assert [page for page in pages if f" {page}\n" not in navigation] == []
