"""The page of job files has the keys of the model, and its example is one."""

from __future__ import annotations

import re
from pathlib import Path

from clash.job.declared import declare
from clash.job.load import parse_job
from clash.job.reference import reference, with_reference

PAGE = Path(__file__).parents[2] / "docs" / "job-file.md"


def test_the_reference_is_that_of_the_model() -> None:
    """`python -m clash.job.reference` writes it again."""
    page = PAGE.read_text(encoding="utf-8")
    assert with_reference(page) == page
    assert "| `window` | text | - |" in reference()
    assert "| `format` | `json` or `avro` | `json` |" in reference()


def test_the_example_is_a_job(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    (tmp_path / "tracking.sql").write_text("SELECT o.customer FROM orders o JOIN payments p USING (order_id)")
    assert not declare(parse_job(example[1], tmp_path / "job.yaml", {})).unchecked
