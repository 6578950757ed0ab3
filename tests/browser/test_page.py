"""The page over a run on Spark: every control is used, and the run does what it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.browser.expecting import count, has_text
from tests.spark import files

import clash
from clash.server.context import JobContext

PAIR = "SELECT R.a, R.x FROM R JOIN S ON R.a = S.a"
OPEN: Any = Callable[..., Any]


class Job:
    """A run with a page, and files for it that arrive on request."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.folder, self.seconds = folder, 0
        for stream in files.COLUMNS:
            (folder / "in" / stream).mkdir(parents=True)
        self.deliver(3)
        engine = clash.Engine(spark, folder / "checkpoint", epoch=1, workers=2, name="shop")
        files.declare(engine, spark, folder / "in")
        engine.query("whole", files.JOIN)
        engine.query("pairs", PAIR)
        self.run = engine.start()
        self.run.process_all_available()
        self.server = clash.serve(self.run, "127.0.0.1:0", job=JobContext(name="shop", folder=folder))

    def deliver(self, seconds: int = 1) -> None:
        """Rows of all streams, and all that they lead to."""
        for second in range(self.seconds, self.seconds + seconds):
            for stream in files.COLUMNS:
                hidden = self.folder / "in" / stream / f".{second:03d}.parquet"
                pq.write_table(files.table(stream, second), hidden)
                hidden.rename(hidden.with_name(hidden.name[1:]))
        self.seconds += seconds
        if hasattr(self, "run"):
            self.run.process_all_available()


@pytest.fixture(scope="module")
def job(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    started = Job(spark, tmp_path_factory.mktemp("page"))
    yield started
    started.server.stop()
    started.run.stop()


def test_the_topology_is_drawn_and_a_pick_lights_its_paths(job: Job, open_page: OPEN, screenshot: Any) -> None:
    page = open_page(job.server.url)
    assert "token" not in page.url
    count(page.locator(".node.query"), 2)
    count(page.locator(".node.stream"), 3)
    has_text(page.locator("#state"), "running")
    has_text(page.locator("#job"), "shop")
    has_text(page.locator(".node.stream").first, "rows")
    steps = page.locator(".node.step").count()
    assert steps >= 4
    page.locator(".row", has_text="pairs").click()
    has_text(page.locator(".details"), "its share of the cost")
    has_text(page.locator(".details .path").first, "›")
    lit = page.locator(".node.step.lit").count()
    assert 0 < lit < steps
    screenshot(page, "picked")
    page.get_by_role("button", name="Isolate").click()
    count(page.locator(".node.step"), lit)
    page.get_by_role("button", name="Isolate").click()
    count(page.locator(".node.step"), steps)
    page.locator(".stage > svg").press("i")
    count(page.locator(".node.step"), lit)
    page.keyboard.press("i")
    count(page.locator(".node.step"), steps)
    page.locator(".node.stream", has_text="R").first.click()
    has_text(page.locator(".details"), "use it")
    page.locator(".node.step").first.click()
    has_text(page.locator(".details"), "matches per tuple")
    page.keyboard.press("Escape")
    count(page.locator(".node.lit"), 0)


def test_keys_and_the_mouse_move_the_picture(job: Job, open_page: OPEN) -> None:
    page = open_page(job.server.url)
    page.locator(".node.stream").first.wait_for()
    scene = page.locator(".stage > svg > g").first
    fitted = scene.get_attribute("transform")
    for name in ("Zoom in (+)", "Zoom out (-)"):
        page.get_by_role("button", name=name).click()
    page.locator(".stage > svg").hover()
    page.mouse.wheel(0, -200)
    page.mouse.down()
    page.mouse.move(500, 500)
    page.mouse.up()
    assert scene.get_attribute("transform") != fitted
    page.get_by_role("button", name="Show all (0)").click()
    assert scene.get_attribute("transform") == fitted
    page.keyboard.press("/")
    page.keyboard.type("pairs")
    count(page.locator(".node.hit"), 1)
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    count(page.locator(".node.hit"), 0)
    page.locator(".node.stream").first.focus()
    page.keyboard.press("ArrowRight")
    focused = page.evaluate("document.activeElement.dataset.id")
    assert focused.startswith("step:")
    page.keyboard.press("Enter")
    has_text(page.locator(".details"), "probe step")
    page.keyboard.press("+")
    zoomed = scene.get_attribute("transform")
    for there, back in (("ArrowLeft", "ArrowRight"), ("ArrowUp", "ArrowDown")):
        page.keyboard.press(f"Shift+{there}")
        assert scene.get_attribute("transform") != zoomed
        page.keyboard.press(f"Shift+{back}")
        assert scene.get_attribute("transform") == zoomed
    assert page.evaluate("document.activeElement.dataset.id") == focused, "Shift and arrows leave the focus"
    page.keyboard.press("-")
    page.keyboard.press("0")
    assert scene.get_attribute("transform") == fitted
    for number, tab in enumerate(("Topology", "Queries", "Batches", "State", "Plans"), 1):
        page.keyboard.press(str(number))
        has_text(page.locator("#tabs [aria-current=page]"), tab)


def test_fingers_move_the_picture_and_pick(job: Job, open_page: OPEN) -> None:
    page = open_page(job.server.url, "narrow", has_touch=True)
    scene, node = page.locator(".stage > svg > g").first, page.locator(".node.stream").first
    node.tap()
    has_text(page.locator(".details h2").first, re.compile("[RST]"))
    node.tap()
    count(page.locator(".node.picked"), 0)
    touch = page.context.new_cdp_session(page)

    def send(kind: str, *points: tuple[float, float]) -> None:
        touch.send(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y, "id": at} for at, (x, y) in enumerate(points)]}
        )

    box = page.locator(".stage").bounding_box()
    x, y = box["x"] + 150, box["y"] + 200
    before = node.bounding_box()
    send("touchStart", (x, y))
    for way in range(0, 60, 10):
        send("touchMove", (x + way, y + way))
    send("touchEnd")
    after = node.bounding_box()
    assert after["x"] - before["x"] == pytest.approx(50, abs=12)
    assert after["y"] - before["y"] == pytest.approx(50, abs=12)
    count(page.locator(".node.picked"), 0)
    scale = scene.evaluate("(scene) => scene.getCTM().a")
    send("touchStart", (x - 20, y), (x + 20, y))
    for way in range(0, 60, 10):
        send("touchMove", (x - 20 - way, y), (x + 20 + way, y))
    send("touchEnd")
    assert scene.evaluate("(scene) => scene.getCTM().a") > 1.5 * scale


def test_a_query_is_checked_added_replaced_and_removed(job: Job, open_page: OPEN, screenshot: Any) -> None:
    page = open_page(job.server.url)
    page.get_by_role("button", name="Add query").click()
    form = page.locator("dialog")
    form.get_by_label("Name").fill("more")
    form.locator("textarea").fill("SELECT R.nothing FROM R JOIN S ON R.a = S.a")
    has_text(form.locator(".preview .problem"), "nothing")
    form.get_by_role("button", name="Add query").click()
    has_text(form.locator(".refusal .problem"), "nothing")
    form.locator("textarea").fill("SELECT S.b, T.y FROM S JOIN T ON S.b = T.b")
    has_text(form.locator(".preview"), "It adds")
    has_text(form.locator(".preview"), re.compile("Complete *.*(first batch|has passed)"))
    screenshot(page, "form")
    form.get_by_role("button", name="Add query").click()
    has_text(page.locator(".toast"), "more is answered")
    has_text(page.locator("#state"), "changing")
    job.deliver()
    count(page.locator(".node.query"), 3)
    assert "more" in job.run.queries
    page.goto(f"{job.server.address}/#queries")
    row = page.locator("tr", has_text="more")
    row.get_by_role("button", name="Replace").click()
    form.locator("textarea").fill("SELECT S.a FROM S JOIN T ON S.b = T.b")
    has_text(form.locator(".preview"), "It adds")
    form.get_by_role("button", name="Replace query").click()
    has_text(page.locator(".toast").last, "replaced")
    job.deliver()
    assert job.run.queries["more"].startswith("SELECT S.a")
    row.get_by_role("button", name="Remove").click()
    has_text(form, "Its results stay")
    form.get_by_role("button", name="Cancel").click()
    count(form, 0)
    row.get_by_role("button", name="Remove").click()
    form.get_by_role("button", name="Remove query").click()
    has_text(page.locator(".toast").last, "ends with the next epoch")
    job.deliver()
    count(page.locator("tbody tr", has_text="more"), 0)
    assert "more" not in job.run.queries


def test_a_query_with_a_sink_a_mode_and_no_history(job: Job, open_page: OPEN) -> None:
    page = open_page(job.server.url)
    page.locator(".node.query").first.wait_for()
    page.keyboard.press("a")
    form = page.locator("dialog")
    assert page.evaluate("document.activeElement.closest('dialog') !== null")
    form.get_by_label("Name").fill("counted")
    text = form.locator("textarea")
    text.fill("SELECT R.a, count(*) AS n FROM R JOIN S ON R.a = S.a GROUP BY R.a")
    form.get_by_label("also join rows that arrived before").uncheck()
    form.locator("summary").click()
    place = form.get_by_label("The folder, topic or table")
    assert place.is_disabled()
    form.get_by_label("Results go to").select_option("parquet")
    place.fill("counted")
    form.get_by_label("Output mode").select_option("append")
    has_text(form.locator(".preview .problem"), "append")
    form.get_by_label("Output mode").select_option("complete")
    has_text(form.locator(".preview"), "It adds")
    text.press("Control+Enter")
    has_text(form.locator(".refusal .problem"), "a folder cannot be replaced with every batch")
    form.get_by_label("Output mode").select_option("update")
    has_text(form.locator(".preview"), "It adds")
    text.press("Control+Enter")
    has_text(page.locator(".toast"), "counted is answered")
    count(form, 0)
    job.deliver()
    count(page.locator(".node.query", has_text="counted"), 1)
    live = {query.name: query for query in job.run.coordinator.generation.setup.queries}["counted"]
    assert (live.history, live.request.final_sink.kind) == (False, "parquet")
    job.deliver()
    written = next((job.folder / "counted").rglob("*.parquet"))
    assert {"a", "n"} <= {*pq.read_schema(written).names}
    side = page.locator(".details")
    page.locator(".row", has_text="counted").click()
    side.get_by_role("button", name="Results").click()
    has_text(page.locator("#tabs [aria-current=page]"), "Queries")
    has_text(page.get_by_role("heading", name="Last results of"), "counted")
    page.keyboard.press("1")
    side.get_by_role("button", name="Replace").click()
    has_text(form, "Replace counted")
    assert form.get_by_label("Name").is_disabled()
    assert text.input_value().startswith("SELECT R.a, count(*)")
    page.keyboard.press("Escape")
    count(form, 0)
    side.get_by_role("button", name="Remove").click()
    form.get_by_role("button", name="Remove query").click()
    has_text(page.locator(".toast").last, "ends with the next epoch")
    job.deliver()
    count(page.locator(".node.query", has_text="counted"), 0)
    assert page.locator(".details").is_hidden()


def test_workers_are_changed(job: Job, open_page: OPEN) -> None:
    page = open_page(job.server.url)
    page.get_by_role("button", name="Workers").click()
    page.get_by_label("Workers", exact=True).fill("3")
    page.get_by_role("button", name="Change", exact=True).click()
    has_text(page.locator(".toast"), "3 workers")
    job.deliver()
    has_text(page.locator("#figures"), re.compile("workers3"))
    assert job.run.generations[-1]["workers"] == 3


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_every_view_shows_what_the_run_did(job: Job, open_page: OPEN, screenshot: Any, size: str, theme: str) -> None:
    page = open_page(job.server.url, size, theme)
    expected = {
        "topology": (".node.query", "pairs"),
        "queries": ("tbody", "whole"),
        "batches": (".waterfall", "probe"),
        "state": (".tile", "rows"),
        "plans": (".timeline", "start"),
    }
    for view, (place, text) in expected.items():
        page.goto(f"{job.server.address}/#{view}")
        has_text(page.locator(place).filter(has_text=text).first, text)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{view} is wider than the screen"
        screenshot(page, f"{view}-{theme}-{size}")
    has_text(page.locator(".headline").nth(1), "instead of")
    page.goto(f"{job.server.address}/#queries")
    page.locator("tbody").get_by_role("button", name="pairs").click()
    results = page.locator("section", has=page.get_by_role("heading", name="Last results of pairs"))
    count(results.locator("tbody tr"), 20)
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") != theme


def test_the_page_comes_back_by_itself_and_says_when_the_run_has_ended(job: Job, open_page: OPEN, screenshot: Any) -> None:
    page = open_page(job.server.url)
    has_text(page.locator("#state"), "running")
    token, port = job.server.access.token, job.server.access.port
    job.server.stop()
    has_text(page.locator("#notice"), "The connection is lost")
    has_text(page.locator("#state"), "connection lost")
    assert page.locator("#add").is_disabled()
    job.server = clash.serve(job.run, f"127.0.0.1:{port}", token)
    has_text(page.locator("#state"), "running")
    assert page.locator("#notice").is_hidden()
    job.run.stop()
    has_text(page.locator("#notice"), "The run has ended")
    has_text(page.locator("#state"), "ended")
    screenshot(page, "ended")


def test_another_token_is_said_to_be_needed(job: Job, open_page: OPEN) -> None:
    page = open_page(f"{job.server.address}/?token=wrong")
    has_text(page.locator("body"), "token")
