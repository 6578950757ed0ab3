"""Java for the processes that tests start themselves."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _java(java: None) -> None:
    """For all tests here."""
