"""Aligned columns of text."""

from __future__ import annotations

from collections.abc import Sequence


def align(rows: Sequence[tuple[str, ...]], left: tuple[int, ...] = (0, 3)) -> list[str]:
    """Columns three spaces apart, aligned to the right except those in `left`; a column without any text is left out."""
    used = [i for i in range(len(rows[0])) if any(row[i] for row in rows)]
    width = {i: max(len(row[i]) for row in rows) for i in used}
    return ["   ".join(f"{row[i]:<{width[i]}}" if i in left else f"{row[i]:>{width[i]}}" for i in used) for row in rows]
