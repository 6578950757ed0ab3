"""The fewest actions of a history that still go wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .actions import Feed, History, Run


def fewest(history: History, wrong: Callable[[History], str | None]) -> History:
    """Drops actions greedily, the last ones first; what was fed is fed with the last start."""
    at = len(history.actions) - 1
    while at >= 0:
        action = history.actions[at]
        left = [*history.actions[:at], *history.actions[at + 1 :]]
        if isinstance(action, Feed):
            left = [*left[:-1], action, Run()]
        smaller = replace(history, actions=tuple(left))
        if left and smaller != history and wrong(smaller) is not None:
            history = smaller
        at -= 1
    return history
