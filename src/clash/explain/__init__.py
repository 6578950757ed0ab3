"""A plan for people (text, a picture), for programs (JSON) and for Graphviz."""

from clash.explain.dot import explain_dot
from clash.explain.html import explain_html
from clash.explain.json import explain_json
from clash.explain.svg import explain_svg
from clash.explain.text import explain_text

__all__ = ["explain_dot", "explain_html", "explain_json", "explain_svg", "explain_text"]
