"""A plan as a picture that needs nothing but a browser: the probe forest, origins to the left.

Boxes of one store have one colour wherever they stand, so a store that many trees probe is seen at once.
"""

from __future__ import annotations

from html import escape

from clash.explain.drawing import EVERYWHERE, LOCAL, Box, boxes
from clash.explain.wording import listed
from clash.planner.plan import Plan

_HEIGHT, _ROW, _GAP, _CHAR, _MARGIN = 26, 44, 46, 7.2, 16
MOST_BOXES = 400  # beyond that a picture tells nobody anything
_DASH = {EVERYWHERE: 'stroke="#c0392b" stroke-width="2.5"', LOCAL: 'stroke="#777" stroke-dasharray="4 3"'}
_PLAIN = 'stroke="#777"'


def explain_svg(plan: Plan) -> str:
    roots = boxes(plan)
    drawn: list[Box] = []
    left = MOST_BOXES
    for root in roots:
        left -= _count(root)
        if left < 0 and drawn:
            break
        drawn.append(root)
    canvas = _Canvas(drawn)
    for root in drawn:
        canvas.draw(root, 0)
    if len(drawn) < len(roots):
        canvas.text(_MARGIN, canvas.row * _ROW + _MARGIN + 14, f"… and {len(roots) - len(drawn):,} more trees", "#777")
        canvas.row += 1
    canvas.key(plan.workers)
    return canvas.finish()


def _count(box: Box) -> int:
    return 1 + sum(map(_count, box.children))


class _Canvas:
    """Depth gives the column, leaves take a row each, a parent stands in the middle of its children."""

    def __init__(self, roots: list[Box]) -> None:
        widths: dict[int, float] = {}
        for root in roots:
            self._measure(root, 0, widths)
        self.width = widths
        self.x = {0: float(_MARGIN)}
        for depth in range(1, len(widths)):
            self.x[depth] = self.x[depth - 1] + widths[depth - 1] + _GAP
        self.row = 0
        self.right = 0.0
        self.hues: dict[str, int] = {}
        self.parts: list[str] = []

    def draw(self, box: Box, depth: int) -> float:
        """Draws the box and all below it; returns the height of its middle."""
        marks = [f"→ {listed(box.emits)}"] if box.emits else []
        marks += [f"↓ {label}" for _, label in box.feeds]
        if box.children:
            middles = [self.draw(child, depth + 1) for child in box.children]
            middle = (middles[0] + middles[-1]) / 2
            for child, at in zip(box.children, middles, strict=True):
                self._edge(depth, middle, at, child)
            self._box(box, depth, middle)
            self.text(self.x[depth], middle + _HEIGHT / 2 + 12, "  ".join(marks), "#1f5fa8", 10)
            return middle
        middle = self.row * _ROW + _MARGIN + _HEIGHT / 2
        self.row += 1
        self._box(box, depth, middle)
        at = self.x[depth] + self._wide(box) + 8
        self.text(at, middle + 4, "  ".join(marks), "#1f5fa8")
        return middle

    def text(self, x: float, y: float, said: str, colour: str, size: int = 12) -> None:
        if not said:
            return
        self.right = max(self.right, x + len(said) * _CHAR * size / 12)
        self.parts.append(f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}" font-size="{size}">{escape(said)}</text>')

    def key(self, workers: int) -> None:
        y = self.row * _ROW + _MARGIN + 8
        x = float(_MARGIN)
        lines = [("", "one worker"), (LOCAL, "stays on its worker"), (EVERYWHERE, f"all {workers} workers")]
        for travels, said in lines if workers > 1 else []:
            self.parts.append(f'<path d="M{x:.0f},{y} h28" fill="none" {_DASH.get(travels, _PLAIN)}/>')
            self.text(x + 34, y + 4, said, "#555", 11)
            x += 34 + len(said) * _CHAR + 14
        self.text(x, y + 4, "→ result   ↓ into the store of an intermediate result", "#555", 11)
        self.row += 1

    def finish(self) -> str:
        width, height = self.right + _MARGIN, self.row * _ROW + _MARGIN
        size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="Helvetica, Arial, sans-serif" role="img">'
        return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *self.parts, "</svg>"])

    def _measure(self, box: Box, depth: int, widths: dict[int, float]) -> None:
        widths[depth] = max(widths.get(depth, 0.0), self._wide(box))
        for child in box.children:
            self._measure(child, depth + 1, widths)

    def _wide(self, box: Box) -> float:
        return len(box.label) * _CHAR + 18

    def _box(self, box: Box, depth: int, middle: float) -> None:
        x, width, round_ = self.x[depth], self._wide(box), 5 if box.store else 13
        self.right = max(self.right, x + width)
        hue = self.hues.setdefault(box.store, round(len(self.hues) * 137.5) % 360)  # the golden angle keeps neighbours apart
        fill = f"hsl({hue}, 65%, 88%)" if box.store else "#333"
        ink = "#111" if box.store else "white"
        place = f'x="{x:.0f}" y="{middle - _HEIGHT / 2:.0f}" width="{width:.0f}" height="{_HEIGHT}" rx="{round_}"'
        self.parts.append(f'<g><title>{escape(box.hint)}</title><rect {place} fill="{fill}" stroke="#555"/>')
        self.parts.append(
            f'<text x="{x + width / 2:.0f}" y="{middle + 4:.0f}" text-anchor="middle" fill="{ink}" font-size="12">'
            f"{escape(box.label)}</text></g>"
        )

    def _edge(self, depth: int, start: float, end: float, child: Box) -> None:
        x, to = self.x[depth], self.x[depth + 1]
        bend = to - _GAP / 2
        line = f"M{x + 9:.0f},{start:.0f} H{bend - 14:.0f} C{bend:.0f},{start:.0f} {bend:.0f},{end:.0f} {to:.0f},{end:.0f}"
        self.parts.append(f'<path d="{line}" fill="none" {_DASH.get(child.travels, _PLAIN)}/>')
