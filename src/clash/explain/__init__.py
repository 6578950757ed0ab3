"""Renders a plan: as text and as a picture for people, as JSON for programs, as DOT for Graphviz.

Imports `plan`, `model`, `topology.trees` (the probe forest) and `planner.cost_model` (the price of a round). Nothing here plans: the costs
of other strategies are passed in by the caller. Start reading in `text`.

| module | what it holds |
|---|---|
| `text` | the plan as text of at most 100 columns |
| `legend` | the explanation of the signs that occur in the text |
| `tables` | aligned columns of text |
| `why`, `why_text` | what keeps a query expensive, and how that is written |
| `shares` | which query uses what, and which part of the cost it bears |
| `json` | the same content and the topology, for programs |
| `drawing` | the probe forest as boxes without coordinates, shared by all pictures |
| `dot`, `svg`, `html` | the pictures: for Graphviz, for a browser, for a notebook |
| `picture` | the data of a picture, with who uses each step, for the live page |
| `wording` | how numbers, lists, predicates and steps are written |
| `formats` | the names of the formats, and the costs of other plans |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from clash.errors import OptionError
from clash.explain.dot import explain_dot
from clash.explain.formats import Alternative, Format, StrategyCost
from clash.explain.html import explain_html
from clash.explain.json import explain_json
from clash.explain.svg import explain_svg
from clash.explain.text import explain_text
from clash.explain.why import explain_why
from clash.explain.why_text import why_json, why_text
from clash.plan.logical import LogicalPlan
from clash.plan.topology import Topology

__all__ = ["explain", "explain_dot", "explain_html", "explain_json", "explain_svg", "explain_text", "explain_why", "why_json", "why_text"]


def explain(
    plan: LogicalPlan,
    topology: Topology,
    format: Format = "text",
    compared: Sequence[StrategyCost] | None = None,
    alternatives: Sequence[Alternative] | None = None,
) -> str:
    """The plan in one of the formats.

    `compared`: the costs of the strategies, for the comparison at the end of text and JSON; `alternatives`: of plans under other options.
    None leaves them out.
    """
    if format not in get_args(Format):
        raise OptionError("unknown format", repr(format), "write text, json or dot")
    if format == "dot":
        return explain_dot(plan, topology)
    return (explain_text if format == "text" else explain_json)(plan, topology, compared, alternatives)
