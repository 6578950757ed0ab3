"""The documented first steps work as shown: the plan of the quick start, the example job, and every link between the pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clash.cli.main import app

ROOT = Path(__file__).parents[2]
QUICK_START = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str) -> list[str]:
    all_blocks = re.findall(r"^```(\w*)\n(.*?)^```$", QUICK_START, re.DOTALL | re.MULTILINE)
    return [text for tag, text in all_blocks if tag == language]


def test_the_plan_of_the_quick_start_is_what_is_printed_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    (_, program), (shown,) = blocks("python"), blocks("")
    exec(compile(program, "quickstart.md", "exec"), {})
    printed = capsys.readouterr().out
    for piece in shown.split("…\n"):
        assert piece in printed


def test_the_plan_of_the_quick_start_is_short() -> None:
    _, program = blocks("python")
    assert len([line for line in program.splitlines() if line.strip()]) <= 10


def test_the_example_job() -> None:
    ran = CliRunner().invoke(app, ["explain", str(ROOT / "examples" / "orders.sql"), "--time-limit", "120"])
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert "PLAN for 3 queries over 6 streams on 4 workers" in ran.stdout
    assert "orders › payments[order_id] with conversion and refunds" in ran.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if "://" not in target and not (page.parent / target).exists()] == []


def test_all_pages_are_in_the_table_of_contents() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES[1:]]
    assert [page for page in pages if page != "index.md" and f"({page})" not in index] == []
