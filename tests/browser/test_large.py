"""Twenty queries over ten streams, and data that would like to be markup."""

from __future__ import annotations

from typing import Any

import pytest
from tests.browser.conftest import SyntheticRun
from tests.browser.expecting import count, has_text
from tests.server.synthetic import HOSTILE

_TEXTS = """[...document.querySelectorAll(".stage text")].filter((text) => text.textContent && text.checkVisibility()).map((text) => ({
  text: text.textContent, isName: text.matches(".stream .name, .step .name"), height: text.getBoundingClientRect().height,
  size: parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a }))"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_twenty_queries_over_ten_streams(synthetic: SyntheticRun, open_page: Any, screenshot: Any, size: str, theme: str) -> None:
    page = open_page(synthetic.server.url, size, theme)
    page.locator(".node.stream").nth(9).wait_for()
    assert page.locator(".node.step").count() > 60
    boxes = page.evaluate("[...document.querySelectorAll('.node')].map((node) => node.getBoundingClientRect().toJSON())")
    overlaps = [(a, b) for at, a in enumerate(boxes) for b in boxes[:at] if _overlap(a, b)]
    assert overlaps == []
    texts = page.evaluate(_TEXTS)
    assert len(texts) > 200
    assert [text for text in texts if text["height"] < 9.9 or text["size"] < (9.5 if text["isName"] else 8.7)] == []
    if size == "wide":
        stage = page.locator(".stage").bounding_box()
        assert max(box["right"] for box in boxes) <= stage["x"] + stage["width"], "all of it is seen at once"
        assert max(box["bottom"] for box in boxes) <= stage["y"] + stage["height"]
    screenshot(page, f"large-{theme}-{size}")
    page.locator(".row").nth(2).click()
    page.locator(".node.query").wait_for()  # exactly one: the others are hidden
    assert page.locator(".node.step").count() < 20
    screenshot(page, f"large-picked-{theme}-{size}")


def _overlap(a: dict[str, float], b: dict[str, float]) -> bool:
    """By more than a pixel."""
    return min(a["right"], b["right"]) - max(a["left"], b["left"]) > 1 and min(a["bottom"], b["bottom"]) - max(a["top"], b["top"]) > 1


def test_all_of_a_picture_that_is_too_large_is_shown_on_request(synthetic: SyntheticRun, open_page: Any) -> None:
    page = open_page(synthetic.server.url, "narrow")
    page.locator(".node.stream").first.wait_for()
    page.get_by_role("button", name="Show all (0)").click()
    stage = page.locator(".stage").bounding_box()
    boxes = page.evaluate("[...document.querySelectorAll('.node')].map((node) => node.getBoundingClientRect().toJSON())")
    assert max(box["right"] for box in boxes) <= stage["x"] + stage["width"]


def test_every_line_says_its_rate_and_those_of_a_pick_their_cost(synthetic: SyntheticRun, open_page: Any) -> None:
    page = open_page(synthetic.server.url)
    page.locator(".node.stream").first.wait_for()
    labels = page.locator(".rate").all_text_contents()
    assert len(labels) == page.locator(".stage .edge").count()
    assert "" not in labels
    assert "".join(page.locator(".cost").all_text_contents()) == ""
    for size in ("< 2 %", "< 5 %", "< 10 %", "≥ 10 %"):
        has_text(page.locator(".legend"), size)
    query = synthetic.data["queries"][2]["name"]
    page.locator(".row", has_text=query).click()
    page.locator(".node.query").wait_for()
    costs = [step["cost"] for step in synthetic.data["topology"]["steps"] if query in step["users"]]
    shown = [_number(text) for text in page.locator(".cost.lit").all_text_contents() if text]
    assert sorted(shown) == pytest.approx(sorted(cost for cost in costs if cost is not None), rel=0.06)
    assert page.locator(".legend .of-pick").is_visible()


def _number(text: str) -> float:
    return float(text.rstrip("kM")) * {"k": 1e3, "M": 1e6}.get(text[-1], 1.0)


def test_a_change_of_the_plan_keeps_what_is_seen_and_what_is_searched_for(synthetic: SyntheticRun, open_page: Any) -> None:
    page = open_page(synthetic.server.url)
    page.locator(".node.stream").first.wait_for()
    scene = page.locator(".stage > svg > g").first
    page.get_by_label("Search streams").fill("scans")
    hits = page.locator(".node.hit").count()
    has_text(page.locator(".hits"), f"{hits} hits")
    page.keyboard.press("Enter")
    has_text(page.locator(".hits"), f"1 of {hits}")
    page.keyboard.press("Shift+Enter")
    has_text(page.locator(".hits"), f"{hits} of {hits}")
    page.get_by_role("button", name="Zoom in (+)").click()
    seen = scene.get_attribute("transform")
    page.locator(".node").first.evaluate("(node) => { node.dataset.mark = 'old'; }")
    synthetic.data["topology"] = {**synthetic.data["topology"], "generation": 4}
    count(page.locator(".node[data-mark]"), 0)  # it is drawn anew
    assert scene.get_attribute("transform") == seen
    count(page.locator(".node.hit"), hits)
    assert page.get_by_label("Search streams").input_value() == "scans"
    page.locator(".row").first.click()
    page.locator(".node.query").wait_for()
    assert scene.get_attribute("transform") != seen, "a pick is shown by itself"
    page.keyboard.press("Escape")
    page.locator(".row").first.press("Escape")
    count(page.locator(".node.query"), 0)
    assert scene.get_attribute("transform") == seen


def test_what_is_picked_and_goes_is_forgotten(synthetic: SyntheticRun, open_page: Any) -> None:
    page = open_page(synthetic.server.url)
    page.locator(".row").first.click()
    page.locator(".node.query").wait_for()
    topology = synthetic.data["topology"]
    synthetic.data["topology"] = {**topology, "generation": 4, "queries": topology["queries"][1:]}
    count(page.locator(".node.stream"), len(topology["streams"]))
    assert page.locator(".details").is_hidden()


def test_charts_of_stores_that_have_gone_are_gone(synthetic: SyntheticRun, open_page: Any) -> None:
    """They would be drawn again with every change of the theme."""
    page = open_page(synthetic.server.url)
    has_text(page.locator("#state"), "running")
    page.goto(f"{synthetic.server.address}/#state")
    stores = synthetic.data["topology"]["stores"]
    count(page.locator(".tile .u-over"), len(stores))
    synthetic.data["topology"] = {**synthetic.data["topology"], "generation": 4, "stores": stores[:3]}
    count(page.locator(".tile"), 3)
    assert page.evaluate("import('/js/charts.js').then(({ charts }) => charts.size)") == 3
    page.locator("#theme").click()
    count(page.locator(".tile .u-over"), 3)


def test_text_is_never_markup(synthetic: SyntheticRun, open_page: Any) -> None:
    page = open_page(synthetic.server.url)
    page.locator("#job", has_text=HOSTILE).wait_for()
    for view in ("queries", "batches", "state", "plans", "topology"):
        page.goto(f"{synthetic.server.address}/#{view}")
        page.locator("main > *").wait_for()
    page.locator(".row").first.click()
    page.locator(".details pre", has_text=HOSTILE).wait_for()
    assert page.locator("img[src=x]").count() == 0
