"""The points of the paper's figure "Adaptive execution", of its two adaptive experiments: milliseconds over seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def _by_second(*values: int) -> Mapping[int, int]:
    return dict(enumerate(values, start=1))


_ADAPTIVE, _STATIC = "adaptive", "static"
ARMS: Sequence[str] = (_ADAPTIVE, _STATIC)
LATENCY: Mapping[tuple[str, str], Mapping[int, int]] = {
    ("selectivity", _ADAPTIVE): _by_second(
        57, 56, 57, 57, 56, 56, 57, 55, 56, 53, 55, 56, 56, 53, 57, 70, 72, 72, 65, 62, 57, 55, 54, 54, 57, 58, 56, 57, 53, 53
    ),
    ("selectivity", _STATIC): _by_second(56, 56, 56, 53, 59, 57, 56, 55, 56, 55, 55, 56, 56, 57, 57, 70, 73, 76, 81, 95),
    ("store", _ADAPTIVE): _by_second(
        57, 56, 54, 58, 56, 56, 56, 56, 57, 57, 55, 53, 56, 57, 56, 57, 53, 50, 48, 43, 39, 34, 35, 36, 36, 35, 35, 35
    ),
    ("store", _STATIC): _by_second(
        57, 56, 55, 56, 53, 56, 57, 57, 53, 57, 55, 56, 54, 58, 54, 56, 53, 57, 53, 58, 56, 56, 57, 56, 56, 57, 56, 57
    ),
}  # fmt: skip
