"""The README's second program runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_the_program_that_runs_joins(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, program = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    exec(compile(program, "README.md", "exec"), {})
    count, batch, *shown = capsys.readouterr().out.splitlines()
    assert count == "500"
    assert int(batch) > 0
    assert any("/page/" in line for line in shown)
