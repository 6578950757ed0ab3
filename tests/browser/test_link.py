"""The printed address works from wherever it is opened."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.server.fake_run import FakeRun

from clash.server.serve import Server, serve


@pytest.fixture
def server() -> Iterator[Server]:
    started = serve(FakeRun(), "127.0.0.1:0")
    yield started
    started.stop()


@pytest.fixture
def other_site(server: Server, tmp_path: Path) -> Iterator[str]:
    """A page of another site, such as a notebook's, with a link to the run."""
    (tmp_path / "page.html").write_text(f'<a href="{server.url}">the run</a>')
    other = ThreadingHTTPServer(("localhost", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path)))
    Thread(target=other.serve_forever, daemon=True).start()
    yield f"http://localhost:{other.server_port}/page.html"
    other.shutdown()
    other.server_close()


def test_a_link_on_another_site_opens_the_page(server: Server, other_site: str, open_page: Any) -> None:
    """The cookie is SameSite=Strict: a redirect would be answered without it."""
    page = open_page(other_site)
    page.get_by_text("the run").click()
    page.locator(".node.stream").first.wait_for()
    assert page.url == f"{server.address}/"
