"""The example notebook: every cell runs, and what it ends with displays as it should."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """The value of the last expression, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_every_cell_runs_and_displays(spark: Any) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(cell["outputs"] == [] for cell in cells if cell["cell_type"] == "code")
    names: dict[str, Any] = {}
    shown = {}
    try:
        for cell in cells:
            if cell["cell_type"] == "code":
                source = "".join(cell["source"])
                shown[source.splitlines()[-1]] = run_cell(source, names)
    finally:
        if "run" in names:
            names["run"].stop()
    assert shown["plan"]._repr_html_().count("<svg") == 1
    assert "<svg" in shown["run"]._repr_html_()
    table = shown["run.progress"]._repr_html_()
    assert "<td>orders</td><td>1,000</td>" in table
    assert "since the start: 1 batches, 2,500 rows" in table
    assert names["run"].recent_progress._repr_html_().startswith("<table>")
    assert shown['run.results("sent").orderBy("order_id").limit(5).toPandas()']["hub"].tolist() == ["Fulda"] * 5
    assert shown["server.address"].startswith("http://127.0.0.1:")
