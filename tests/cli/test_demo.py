"""`clash demo` runs, on any number of workers, and colours change no character."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from clash.cli.demo import QUERIES, STREAMS
from clash.cli.main import app
from clash.cli.paint import paint, show_plan


@pytest.mark.parametrize("workers", [1, 4])
def test_demo(workers: int) -> None:
    ran = CliRunner().invoke(app, ["demo", "--workers", str(workers)], env={"NO_COLOR": "1", "COLUMNS": "100"})
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert [name for name in (*STREAMS, *QUERIES) if name not in ran.stdout] == []
    assert ran.stdout.count("STRATEGIES") == 1
    assert "what a tuple of orders does: 8 steps, 5 queries" in ran.stdout
    assert "of the estimated cost of 5 queries each on its own" in ran.stdout


@given(
    st.lists(st.sampled_from(["  orders › payments[id] » T[*]   cost 5", "▸ global   █", "[red]", "PLAN", "q = R", "    shares x", "\t"]))
)
def test_painting_changes_no_character(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    assert paint(text).plain == text
    plain = io.StringIO()
    show_plan(Console(file=plain), text)
    assert plain.getvalue() == text


def test_a_terminal_gets_colours() -> None:
    seen = io.StringIO()
    show_plan(Console(file=seen, force_terminal=True, color_system="standard", highlight=False), "q1 = R ⋈ S\n  R › S[a]   cost 1\n")
    assert "\x1b[" in seen.getvalue()
