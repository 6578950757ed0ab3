"""A plan for Graphviz: `clash explain --format dot job.sql | dot -Tsvg`."""

from __future__ import annotations

from collections.abc import Iterator

from clash.explain.drawing import EVERYWHERE, LOCAL, Box, boxes, legend_stores
from clash.planner.plan import Plan


def explain_dot(plan: Plan) -> str:
    """Origins to the left; an edge is bold where it goes to all workers, dashed where it stays on one."""
    lines = [
        "digraph plan {",
        '  rankdir=LR; node [fontname="Helvetica", fontsize=11]; edge [fontname="Helvetica", fontsize=9];',
    ]
    for root in boxes(plan):
        lines.append(f"  {root.name} [label={_quote(root.label)}, shape=circle];")
        lines += _below(root)
    for query in plan.queries:
        lines.append(f"  {_query(query.name)} [label={_quote(query.name)}, shape=plaintext, fontcolor=blue];")
    lines.append('  subgraph cluster_stores { label="stores"; style=dotted;')
    lines += [f"    {_quote('store ' + name)} [label={_quote(said)}, shape=cylinder];" for name, said in legend_stores(plan)]
    return "\n".join([*lines, "  }", "}"]) + "\n"


def _below(box: Box) -> Iterator[str]:
    for query in box.emits:
        yield f"  {box.name} -> {_query(query)} [color=blue, arrowhead=vee];"
    for store, _ in box.feeds:
        yield f"  {box.name} -> {_quote('store ' + store)} [style=dotted, color=gray40];"
    for child in box.children:
        style = {EVERYWHERE: ", style=bold, color=red", LOCAL: ", style=dashed"}.get(child.travels, "")
        yield f"  {child.name} [label={_quote(child.label)}, tooltip={_quote(child.hint)}, shape=box, style=rounded];"
        yield f"  {box.name} -> {child.name} [label={_quote(f'{child.name} @{child.position}')}{style}];"
        yield from _below(child)


def _query(name: str) -> str:
    return _quote("query " + name)


def _quote(text: str) -> str:
    """A DOT string: a backslash would start an escape such as \\n or \\N."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'
