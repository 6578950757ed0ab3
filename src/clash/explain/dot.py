"""A plan in Graphviz's language: `clash explain --format dot job.sql | dot -Tsvg`."""

from __future__ import annotations

from collections.abc import Iterator

from clash.explain.drawing import EVERYWHERE, LOCAL, Box, describe_stores, forest_boxes, spark_parts
from clash.plan.logical import LogicalPlan
from clash.plan.topology import Topology


def explain_dot(plan: LogicalPlan, topology: Topology) -> str:
    """Origins are on the left. An edge is bold where it goes to all workers, and dashed where it stays on its worker."""
    lines = [
        "digraph plan {",
        '  rankdir=LR; node [fontname="Helvetica", fontsize=11]; edge [fontname="Helvetica", fontsize=9];',
    ]
    for root in forest_boxes(topology):
        lines.append(f"  {root.name} [label={_quote(root.label)}, tooltip={_quote(root.tooltip)}, shape=circle];")
        lines += _edges_below(root)
    for query in plan.queries:
        tooltip = f"tooltip={_quote(spark_parts(query))}, " if spark_parts(query) else ""
        lines.append(f"  {_query_node(query.name)} [label={_quote(query.name)}, {tooltip}shape=plaintext, fontcolor=blue];")
    lines.append('  subgraph cluster_stores { label="stores"; style=dotted;')
    lines += [
        f"    {_quote('store ' + name)} [label={_quote(description)}, shape=cylinder];"
        for name, description in describe_stores(plan, topology)
    ]
    return "\n".join([*lines, "  }", "}"]) + "\n"


def _edges_below(box: Box) -> Iterator[str]:
    """The nodes below a box, and all edges that leave it or them."""
    for query in box.emits:
        yield f"  {box.name} -> {_query_node(query)} [color=blue, arrowhead=vee];"
    for store, _ in box.feeds:
        yield f"  {box.name} -> {_quote('store ' + store)} [style=dotted, color=gray40];"
    for child in box.children:
        style = {EVERYWHERE: ", style=bold, color=red", LOCAL: ", style=dashed"}.get(child.travels, "")
        yield f"  {child.name} [label={_quote(child.label)}, tooltip={_quote(child.tooltip)}, shape=box, style=rounded];"
        yield f"  {box.name} -> {child.name} [label={_quote(f'{child.name} @{child.position}')}{style}];"
        yield from _edges_below(child)


def _query_node(name: str) -> str:
    return _quote("query " + name)


def _quote(text: str) -> str:
    """A DOT string. Backslashes are doubled, because one alone starts an escape such as \\n or \\N."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'
