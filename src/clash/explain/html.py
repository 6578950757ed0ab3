"""A plan in a notebook: the picture, with the text below it in a section that is closed at first."""

from __future__ import annotations

from html import escape

from clash.explain.svg import explain_svg
from clash.explain.text import explain_text
from clash.plan.logical import LogicalPlan
from clash.plan.topology import Topology


def explain_html(plan: LogicalPlan, topology: Topology) -> str:
    """Without the comparison of strategies: a notebook displays a plan on its own, so this must not start the planner again."""
    text = explain_text(plan, topology)
    return (
        f'<div style="overflow-x:auto">{explain_svg(plan, topology)}</div>'
        f'<details><summary>as text</summary><pre style="line-height:1.25">{escape(text)}</pre></details>'
    )
