"""A plan in a notebook: the picture, and the text below it on request."""

from __future__ import annotations

from html import escape

from clash.explain.svg import explain_svg
from clash.explain.text import explain_text
from clash.planner.plan import Plan


def explain_html(plan: Plan) -> str:
    """A notebook shows a plan by itself, so this never plans anything anew."""
    text = explain_text(plan, compare=False)
    return (
        f'<div style="overflow-x:auto">{explain_svg(plan)}</div>'
        f'<details><summary>as text</summary><pre style="line-height:1.25">{escape(text)}</pre></details>'
    )
