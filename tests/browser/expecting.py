"""Waits for what a click has led to."""

from __future__ import annotations

import re
from typing import Any


def has_text(locator: Any, text: str | re.Pattern[str]) -> None:
    from playwright.sync_api import expect

    expect(locator).to_contain_text(text, timeout=30_000)


def count(locator: Any, number: int) -> None:
    from playwright.sync_api import expect

    expect(locator).to_have_count(number, timeout=30_000)
