"""The examples in docstrings of the model and of the SQL front end."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import clash.hints
import clash.model
import clash.sql

MODULES = ["clash.hints"] + [
    module.name for package in (clash.model, clash.sql) for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    assert sum(len(test.examples) for name in MODULES for test in finder.find(importlib.import_module(name))) > 10
