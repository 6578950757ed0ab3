"""docs/architecture.md stays true: every dotted name on it resolves."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
NAMES = sorted(set(re.findall(r"`(clash(?:\.\w+)+)`", PAGE.read_text())))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_resolves(name: str) -> None:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return
    pytest.fail(f"{name} does not exist")


def test_every_package_is_in_the_drawing() -> None:
    drawing = PAGE.read_text().split("```")[1]
    root = PAGE.parents[1] / "src" / "clash"
    packages = [path.name for path in root.iterdir() if (path / "__init__.py").exists()]
    packages += [path.name for path in (root / "coordinator").iterdir() if (path / "__init__.py").exists()]
    assert [package for package in packages if not re.search(rf"\b{package}\b", drawing)] == []
