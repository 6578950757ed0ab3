"""Dictionaries whose changes can be undone: a move of the search costs what it changes, not what the plan holds."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_ABSENT: Any = object()


class Journal:
    """What was changed, in order; `undo` takes it back."""

    def __init__(self) -> None:
        self.entries: list[tuple[dict[Any, Any], Any, Any]] = []  # (table, key, value before)

    def undo(self, mark: int) -> None:
        """Takes back every change since there were `mark` entries."""
        entries = self.entries
        while len(entries) > mark:
            table, key, before = entries.pop()
            if before is _ABSENT:
                dict.pop(table, key, None)
            else:
                dict.__setitem__(table, key, before)


class JournaledDict(dict[K, V], Generic[K, V]):
    """A dictionary that records its changes. Only the operations below may change it."""

    __slots__ = ("_entries",)

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._entries = journal.entries

    def __setitem__(self, key: K, value: V) -> None:
        self._entries.append((self, key, self.get(key, _ABSENT)))
        dict.__setitem__(self, key, value)

    def __delitem__(self, key: K) -> None:
        self._entries.append((self, key, self[key]))
        dict.__delitem__(self, key)

    def discard(self, key: K) -> None:
        """Removes the key if it is there."""
        if key in self:
            del self[key]

    def assign(self, items: dict[K, V]) -> None:
        """Sets all the items."""
        for key, value in items.items():
            self[key] = value

    def replace(self, items: dict[K, V]) -> None:
        """Makes the content that of `items`."""
        for key in [key for key in self if key not in items]:
            del self[key]
        for key, value in items.items():
            if self.get(key, _ABSENT) != value:
                self[key] = value
