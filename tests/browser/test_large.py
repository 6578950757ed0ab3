"""Twenty queries over ten streams, and data that would like to be markup."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from tests.server.synthetic import HOSTILE, snapshots

from clash.server import snapshot
from clash.server.serve import Server, serve


class NoRun:
    is_active = True
    exception = None


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    taken = snapshots()
    monkeypatch.setattr(snapshot, "EVENTS", {name: partial(lambda data, _run: data, data) for name, data in taken.items()})
    monkeypatch.setattr(snapshot, "history", lambda _run, _after=-1: [])
    started = serve(NoRun(), "127.0.0.1:0")
    yield started
    started.stop()


@pytest.mark.parametrize(("size", "theme"), [("wide", "light"), ("wide", "dark"), ("narrow", "light")])
def test_twenty_queries_over_ten_streams(server: Server, open_page: Any, screenshot: Any, size: str, theme: str) -> None:
    page = open_page(server.url, size, theme)
    page.locator(".node.stream").nth(9).wait_for()
    assert page.locator(".node.step").count() > 60
    boxes = page.evaluate("[...document.querySelectorAll('.node')].map((node) => node.getBoundingClientRect().toJSON())")
    overlaps = [(a, b) for at, a in enumerate(boxes) for b in boxes[:at] if _overlap(a, b)]
    assert overlaps == []
    screenshot(page, f"large-{theme}-{size}")
    page.locator(".row").nth(2).click()
    page.locator(".node.query").wait_for()  # exactly one: the others are hidden
    assert page.locator(".node.step").count() < 20
    screenshot(page, f"large-picked-{theme}-{size}")


def _overlap(a: dict[str, float], b: dict[str, float]) -> bool:
    """By more than a pixel."""
    return min(a["right"], b["right"]) - max(a["left"], b["left"]) > 1 and min(a["bottom"], b["bottom"]) - max(a["top"], b["top"]) > 1


def test_text_is_never_markup(server: Server, open_page: Any) -> None:
    page = open_page(server.url)
    page.locator("#job", has_text=HOSTILE).wait_for()
    for view in ("queries", "batches", "state", "plans", "topology"):
        page.goto(f"{server.address}/#{view}")
        page.locator("main > *").wait_for()
    page.locator(".row").first.click()
    page.locator(".details pre", has_text=HOSTILE).wait_for()
    assert page.locator("img[src=x]").count() == 0
