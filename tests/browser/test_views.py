"""What the views say of snapshots whose every number is known, and what the page says when something is wrong."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
from tests.browser.conftest import SyntheticRun
from tests.browser.contrast import weak_texts
from tests.browser.expecting import count, has_text
from tests.server.synthetic import HOSTILE

from clash.errors import ClashError
from clash.server import app
from clash.server.events import EventHub
from clash.server.serve import serve

WIDTHS = "(bars) => bars.map((bar) => parseFloat(bar.style.width))"


def _view(run: SyntheticRun, open_page: Any, name: str, *options: str) -> Any:
    page = open_page(run.server.url, *options)
    has_text(page.locator("#state"), "running")
    page.goto(f"{run.server.address}/#{name}")
    return page


def _line(page: Any, text: str) -> str:
    found: str = page.locator(".scale .line", has_text=text).first.inner_text()
    return re.sub(r"\s+", " ", found)


def test_the_plans_say_what_they_cost_and_what_separate_jobs_would(synthetic: SyntheticRun, open_page: Any) -> None:
    page = _view(synthetic, open_page, "plans")
    cost, held = page.locator(".card").nth(0), page.locator(".card").nth(1)
    has_text(cost, "at most 22 % over the cheapest plan there can be; 10 % over the best plan known")
    assert _line(cost, "the running plan") == "the running plan 1.1M 1.00×"
    assert _line(cost, "the best plan known") == "the best plan known 1M 0.91×"
    assert _line(cost, "no plan costs less, proven") == "no plan costs less, proven 900k 0.82×"
    assert _line(cost, "separate jobs") == "separate jobs 3.4M 3.09×"
    assert cost.locator(".fill").evaluate_all(WIDTHS) == pytest.approx([100 * value / 3.4 for value in (1.1, 1.0, 0.9, 3.4)], abs=0.1)
    stores = len(synthetic.data["topology"]["stores"])
    has_text(held, f"3.80× the rows, in 63 stores instead of {stores}: now about 110 MB instead of 29.0 MB")
    assert held.locator(".fill").evaluate_all(WIDTHS) == pytest.approx([100 * 0.5 / 1.9, 100.0], abs=0.1)
    synthetic.data["quality"] = {**synthetic.data["quality"], "independent": None, "proven": True, "bound": 1e6}
    has_text(held, "is being planned")
    has_text(cost, "the optimum, proven")
    count(cost.locator(".line"), 3)


def test_generations_say_why_they_began_and_what_came_of_what_they_promised(synthetic: SyntheticRun, open_page: Any) -> None:
    page = _view(synthetic, open_page, "plans")
    generations = page.locator(".timeline li")
    count(generations, 4)
    assert page.locator(".timeline .reason").all_text_contents() == ["workers 4 → 8", "statistics moved", "query q added", "start"]
    moved = generations.nth(1)
    has_text(moved.locator(".when"), "batch 200")
    has_text(moved.locator(".because"), HOSTILE)
    has_text(moved, "promised 1.4M → 1M (−29 %)")
    has_text(moved, "measured 14.2 µs → 9.80 µs per row (−31 %)")
    has_text(moved.locator(".better"), "−31 %")
    has_text(moved, "20 queries, 18 stores, 8 workers, 100 batches")
    has_text(generations.nth(3), "measured 9.80 µs per row")
    assert "promised" not in generations.nth(3).inner_text()
    synthetic.data["generations"][-1] = {**synthetic.data["generations"][-1], "measured": 20.0}
    has_text(generations.nth(0).locator(".worse"), "+41 %")


def test_workers_are_compared_or_it_is_said_why_they_cannot_be(synthetic: SyntheticRun, open_page: Any) -> None:
    page = _view(synthetic, open_page, "batches")
    card = page.locator(".card", has=page.get_by_role("heading", name="Workers"))
    has_text(card, "the hottest has 22 % of the work, 1.76 times its part")
    shares = synthetic.data["flows"]["workers"]
    assert card.locator(".fill").evaluate_all(WIDTHS) == pytest.approx([100 * share / 0.22 for share in shares], abs=0.1)
    flows = {**synthetic.data["flows"], "workers": []}
    synthetic.data["flows"] = flows
    has_text(card, "One task has done the work of all 8 workers")
    count(card.locator(".line"), 0)
    synthetic.data["flows"] = {**flows, "streams": {name: {**stream, "rate": 0.0} for name, stream in flows["streams"].items()}}
    has_text(card, "Nothing has arrived in the last ten seconds")


def test_recent_batches_say_where_their_time_went_and_which_rows_were_late(synthetic: SyntheticRun, open_page: Any) -> None:
    page = _view(synthetic, open_page, "batches")
    bars = page.locator(".batch")
    count(bars, 60)
    recent = synthetic.batches[-60:]
    late = [entry["batch"] for entry in recent if entry["late"]]
    heights = page.locator(".batch .late").evaluate_all("(bars) => bars.map((bar) => parseFloat(bar.style.height))")
    assert [entry["batch"] for entry, height in zip(recent, heights, strict=True) if height > 0] == late
    count(page.locator(".batch.over"), 1)
    has_text(page.locator(".card").first, f"{4 * len(late)} late rows")
    stack = bars.first.locator(".stack span").evaluate_all("(parts) => parts.map((part) => parseFloat(part.style.height))")
    assert [height / stack[2] for height in stack] == pytest.approx([0.1, 0.05, 1.0, 0.15, 0.05, 0.1], abs=0.01)
    waterfall = page.locator(".card", has=page.locator(".waterfall"))
    has_text(waterfall, "The last batch")
    page.locator(f".batch[data-key='{late[0]}']").click()
    has_text(waterfall, f"Batch {late[0]:,}")
    has_text(waterfall, "4 late (orders 3, scans 1)")
    strip = page.get_by_role("slider", name="Batch")
    strip.press("ArrowRight")
    has_text(waterfall, f"Batch {late[0] + 1:,}")
    has_text(waterfall, "none late")
    for key, batch in (("Home", recent[0]["batch"]), ("ArrowRight", recent[1]["batch"]), ("End", recent[-1]["batch"])):
        strip.press(key)
        has_text(waterfall, f"Batch {batch:,}")
    page.get_by_role("button", name="Follow the newest").click()
    has_text(waterfall, "The last batch")
    new = {**recent[-1], "batch": recent[-1]["batch"] + 1, "late": {"orders": 5}}
    synthetic.batches.append(new)
    synthetic.data["batch"] = {**synthetic.data["batch"], "batch": new["batch"], "late": new["late"]}
    synthetic.data["status"] = {**synthetic.data["status"], "batch": new["batch"]}
    count(page.locator(f".batch[data-key='{new['batch']}']"), 1)
    has_text(waterfall, "5 late (orders 5)")


def test_a_pick_leads_from_view_to_view(synthetic: SyntheticRun, open_page: Any) -> None:
    page = _view(synthetic, open_page, "state")
    query = synthetic.data["topology"]["queries"][4]["name"]
    page.locator(".matrix thead").get_by_role("button", name=query, exact=True).click()
    has_text(page.locator("#tabs [aria-current=page]"), "Topology")
    has_text(page.locator(".details h2"), query)
    page.locator(".node.stream").first.click()
    chip = page.locator(".details .chip").first
    name = chip.inner_text()
    chip.click()
    has_text(page.locator(".details h2"), name)
    has_text(page.locator(".row[aria-pressed=true] .title"), name)
    page.get_by_role("button", name="Close the details").click()
    count(page.locator(".row[aria-pressed=true]"), 0)
    assert page.locator(".details").is_hidden()


@pytest.mark.parametrize("size", ["wide", "narrow"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_can_be_read(synthetic: SyntheticRun, open_page: Any, theme: str, size: str, screenshot: Any) -> None:
    page = _view(synthetic, open_page, "topology", size, theme)
    places = {"topology": ".node", "queries": "tbody tr", "batches": ".batch", "state": ".tile .u-over", "plans": ".timeline li"}
    for view, place in places.items():
        page.goto(f"{synthetic.server.address}/#{view}")
        page.locator(place).first.wait_for()
        assert weak_texts(page) == [], view
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{view} is wider than the screen"
        screenshot(page, f"synthetic-{view}-{theme}-{size}")
    page.locator("#add").click()
    page.locator("dialog summary").click()
    assert weak_texts(page) == []
    page.locator("dialog textarea").fill("SELECT 1")
    page.locator("dialog .problem").wait_for()  # this run cannot answer
    assert weak_texts(page) == []


# ---- when something is wrong -----------------------------------------------------------------------------------------


def test_another_token_is_no_access(synthetic: SyntheticRun, open_page: Any) -> None:
    page = _view(synthetic, open_page, "topology")
    port = synthetic.server.access.port
    synthetic.server.stop()
    has_text(page.locator("#state"), "connection lost")
    synthetic.server = serve(synthetic, f"127.0.0.1:{port}", "another-token-0123456789")
    has_text(page.locator("#state"), "no access")
    has_text(page.locator("#notice"), "Open the address that the run has printed")
    assert page.locator("#add").is_disabled()
    assert weak_texts(page) == []


def test_a_run_that_has_failed_says_why(synthetic: SyntheticRun, open_page: Any) -> None:
    page = _view(synthetic, open_page, "queries")
    synthetic.exception, synthetic.is_active = ClashError("the disk is full", HOSTILE, "make room, and start it again"), False
    has_text(page.locator("#state"), "failed")
    has_text(page.locator("#notice"), "The run has failed: the disk is full")
    has_text(page.locator("#notice"), HOSTILE)
    has_text(page.locator("#notice"), "make room")
    assert page.locator("#rescale").is_disabled()
    assert weak_texts(page) == []


def test_a_server_that_is_too_busy_is_not_a_lost_connection(
    synthetic: SyntheticRun, open_page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "EventHub", partial(EventHub, limit=1))
    synthetic.server.stop()
    synthetic.server = serve(synthetic, "127.0.0.1:0")
    first = open_page(synthetic.server.url)
    has_text(first.locator("#state"), "running")
    second = open_page(synthetic.server.url)
    has_text(second.locator("#state"), "too busy")
    has_text(second.locator("#notice"), "too many event streams")
    has_text(second.locator("#notice"), "close a page")
    first.close()
    has_text(second.locator("#state"), "running")
    assert second.locator("#notice").is_hidden()


def test_before_the_first_batch_the_views_say_so(synthetic: SyntheticRun, open_page: Any) -> None:
    synthetic.batches = []
    synthetic.data["queries"] = []
    synthetic.data["batch"] = {**synthetic.data["batch"], "batch": -1, "timestamp": None, "driver": {}, "tasks": {}}
    synthetic.data["topology"] = {**synthetic.data["topology"], "queries": [], "steps": [], "origins": []}
    page = _view(synthetic, open_page, "batches")
    has_text(page.locator(".card").first, "No batch yet")
    has_text(page.locator(".chart").first, "Drawn from the second batch on")
    page.goto(f"{synthetic.server.address}/#queries")
    has_text(page.locator("main"), "No query runs. Add one")
    page.goto(f"{synthetic.server.address}/#topology")
    has_text(page.locator(".side"), "No query runs. Add one")
    count(page.locator(".node.stream"), 10)
