"""A real Chromium, driven by playwright. `scripts/test_servers.py chromium` gets it; without it these tests are skipped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.server.synthetic import history, snapshots
from tests.servers import get

from clash.server import snapshot
from clash.server.serve import serve

# Chromium in a container, without calls home
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
SIZES = {"wide": (1440, 900), "narrow": (390, 844)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Ended with its module: while playwright runs, its event loop makes `asyncio.run` impossible in this thread."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    program = get("chromium")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=str(program), args=[*FLAGS])
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address in a window of its own; what goes wrong in it fails the test."""
    contexts, problems = [], []

    def open_(url: str, size: str = "wide", theme: str = "light", has_touch: bool = False) -> Any:
        width, height = SIZES[size]
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce", has_touch=has_touch
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if "Content Security Policy" in message.text else None)
        page.on("dialog", lambda dialog: (problems.append(f"a dialog of the data's: {dialog.message}"), dialog.dismiss()))
        answer = page.goto(url)
        if answer.ok:
            page.wait_for_url(lambda address: "token=" not in address)  # an address with a token leads to the page in two steps
        return page

    yield open_
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def screenshot(tmp_path: Path) -> Callable[[Any, str], None]:
    """Kept where $CLASH_SCREENSHOTS says."""
    folder = Path(os.environ.get("CLASH_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)

    def take(page: Any, name: str) -> None:
        page.screenshot(path=folder / f"{name}.png", full_page=page.viewport_size["width"] < 500)

    return take


class SyntheticRun:
    """A page over snapshots that are made up, and may be changed while it is open."""

    def __init__(self) -> None:
        self.data, self.batches = snapshots(), history()
        self.is_active = True
        self.exception: Any = None
        self.server = serve(self, "127.0.0.1:0")


@pytest.fixture
def synthetic(monkeypatch: pytest.MonkeyPatch) -> Iterator[SyntheticRun]:
    monkeypatch.setattr(snapshot, "EVENTS", {name: partial(lambda name, run: run.data[name], name) for name in snapshot.EVENTS})
    monkeypatch.setattr(snapshot, "history", lambda run, after=-1: [entry for entry in run.batches if entry["batch"] > after])
    run = SyntheticRun()
    yield run
    run.server.stop()
