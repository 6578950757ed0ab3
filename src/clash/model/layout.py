"""How a store is spread over the workers."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from clash.model.relation import Relation

LayoutKind = Literal["hash", "one", "all"]


class Layout(NamedTuple):
    """`hash` by one column (of one relation, in the store of an intermediate result; by arrival where `column` is None),
    on `one` worker alone, or a copy on `all` of them."""

    kind: LayoutKind
    column: str | None = None
    relation: Relation | None = None

    def __str__(self) -> str:
        if self.kind != "hash":
            return "1" if self.kind == "one" else "*"
        if self.column is None:
            return "~"
        return self.column if self.relation is None else f"{self.relation}.{self.column}"

    def to_json(self) -> list[Any]:
        return [self.kind, self.column, None if self.relation is None else [*self.relation]]

    @staticmethod
    def from_json(data: list[Any]) -> Layout:
        return Layout(data[0], data[1], None if data[2] is None else Relation(*data[2]))


ONE = Layout("one")
ALL = Layout("all")
