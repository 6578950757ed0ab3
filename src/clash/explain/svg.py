"""A plan as a picture that needs only a browser: the probe forest, with the origins on the left.

All boxes of one store have the same colour, so that a store which many trees probe stands out.
"""

from __future__ import annotations

from html import escape

from clash.explain.drawing import EVERYWHERE, LOCAL, Box, Travels, forest_boxes
from clash.explain.wording import join_names
from clash.plan.logical import LogicalPlan
from clash.plan.topology import Topology

MAX_BOXES = 400  # a larger picture is not readable
_BOX_HEIGHT, _ROW_HEIGHT, _COLUMN_GAP, _CHAR_WIDTH, _MARGIN = 26, 44, 46, 7.2, 16
_STROKES = {EVERYWHERE: 'stroke="#c0392b" stroke-width="2.5"', LOCAL: 'stroke="#777" stroke-dasharray="4 3"'}
_PLAIN_STROKE = 'stroke="#777"'


def explain_svg(plan: LogicalPlan, topology: Topology) -> str:
    """Draws whole trees, in order, up to `MAX_BOXES` boxes; the first tree is always drawn."""
    roots = forest_boxes(topology)
    drawn: list[Box] = []
    remaining = MAX_BOXES
    for root in roots:
        remaining -= _count_boxes(root)
        if remaining < 0 and drawn:
            break
        drawn.append(root)
    canvas = _Canvas(drawn)
    for root in drawn:
        canvas.draw(root, 0)
    if len(drawn) < len(roots):
        canvas.text(_MARGIN, canvas.next_row * _ROW_HEIGHT + _MARGIN + 14, f"… and {len(roots) - len(drawn):,} more trees", "#777")
        canvas.next_row += 1
    canvas.legend(plan.workers)
    return canvas.finish()


def _count_boxes(box: Box) -> int:
    return 1 + sum(map(_count_boxes, box.children))


class _Canvas:
    """Lays out and draws: the depth of a box is its column, every leaf has a row, a parent is centred on its children."""

    def __init__(self, roots: list[Box]) -> None:
        widths: dict[int, float] = {}
        for root in roots:
            self._measure_columns(root, 0, widths)
        self.column_x = {0: float(_MARGIN)}
        for depth in range(1, len(widths)):
            self.column_x[depth] = self.column_x[depth - 1] + widths[depth - 1] + _COLUMN_GAP
        self.next_row = 0
        self.right_edge = 0.0
        self.store_hues: dict[str, int] = {}
        self.elements: list[str] = []

    def draw(self, box: Box, depth: int) -> float:
        """Draws the box and all boxes below it; returns the y of its middle."""
        marks = [f"→ {join_names(box.emits)}"] if box.emits else []
        marks += [f"↓ {label}" for _, label in box.feeds]
        if box.children:
            middles = [self.draw(child, depth + 1) for child in box.children]
            middle = (middles[0] + middles[-1]) / 2
            for child, child_middle in zip(box.children, middles, strict=True):
                self._edge(depth, middle, child_middle, child)
            self._box(box, depth, middle)
            self.text(self.column_x[depth], middle + _BOX_HEIGHT / 2 + 12, "  ".join(marks), "#1f5fa8", 10)
            return middle
        middle = self.next_row * _ROW_HEIGHT + _MARGIN + _BOX_HEIGHT / 2
        self.next_row += 1
        self._box(box, depth, middle)
        self.text(self.column_x[depth] + self._box_width(box) + 8, middle + 4, "  ".join(marks), "#1f5fa8")
        return middle

    def text(self, x: float, y: float, content: str, colour: str, size: int = 12) -> None:
        if not content:
            return
        self.right_edge = max(self.right_edge, x + len(content) * _CHAR_WIDTH * size / 12)
        self.elements.append(f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}" font-size="{size}">{escape(content)}</text>')

    def legend(self, workers: int) -> None:
        y = self.next_row * _ROW_HEIGHT + _MARGIN + 8
        x = float(_MARGIN)
        lines: list[tuple[Travels, str]] = [
            ("", "one worker"), (LOCAL, "stays on its worker"), (EVERYWHERE, f"all {workers} workers"),
        ]  # fmt: skip
        for travels, meaning in lines if workers > 1 else []:
            self.elements.append(f'<path d="M{x:.0f},{y} h28" fill="none" {_STROKES.get(travels, _PLAIN_STROKE)}/>')
            self.text(x + 34, y + 4, meaning, "#555", 11)
            x += 34 + len(meaning) * _CHAR_WIDTH + 14
        self.text(x, y + 4, "→ result   ↓ into the store of an intermediate result", "#555", 11)
        self.next_row += 1

    def finish(self) -> str:
        """The whole picture as one SVG element."""
        width, height = self.right_edge + _MARGIN, self.next_row * _ROW_HEIGHT + _MARGIN
        size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="Helvetica, Arial, sans-serif" role="img">'
        return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *self.elements, "</svg>"])

    def _measure_columns(self, box: Box, depth: int, widths: dict[int, float]) -> None:
        widths[depth] = max(widths.get(depth, 0.0), self._box_width(box))
        for child in box.children:
            self._measure_columns(child, depth + 1, widths)

    def _box_width(self, box: Box) -> float:
        return len(box.label) * _CHAR_WIDTH + 18

    def _box(self, box: Box, depth: int, middle: float) -> None:
        x, width, radius = self.column_x[depth], self._box_width(box), 5 if box.store else 13
        self.right_edge = max(self.right_edge, x + width)
        # steps of the golden angle give consecutive stores clearly different hues
        hue = self.store_hues.setdefault(box.store, round(len(self.store_hues) * 137.5) % 360)
        fill = f"hsl({hue}, 65%, 88%)" if box.store else "#333"
        text_colour = "#111" if box.store else "white"
        shape = f'x="{x:.0f}" y="{middle - _BOX_HEIGHT / 2:.0f}" width="{width:.0f}" height="{_BOX_HEIGHT}" rx="{radius}"'
        self.elements.append(f'<g><title>{escape(box.tooltip)}</title><rect {shape} fill="{fill}" stroke="#555"/>')
        self.elements.append(
            f'<text x="{x + width / 2:.0f}" y="{middle + 4:.0f}" text-anchor="middle" fill="{text_colour}" font-size="12">'
            f"{escape(box.label)}</text></g>"
        )

    def _edge(self, depth: int, start: float, end: float, child: Box) -> None:
        x, child_x = self.column_x[depth], self.column_x[depth + 1]
        bend = child_x - _COLUMN_GAP / 2
        line = f"M{x + 9:.0f},{start:.0f} H{bend - 14:.0f} C{bend:.0f},{start:.0f} {bend:.0f},{end:.0f} {child_x:.0f},{end:.0f}"
        self.elements.append(f'<path d="{line}" fill="none" {_STROKES.get(child.travels, _PLAIN_STROKE)}/>')
