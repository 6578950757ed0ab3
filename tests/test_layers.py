"""The layers: which package may import which. An import that is not in the table fails here, wherever it stands in a file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "clash"

# A package may import those on its right, and nothing else of clash. Lower layers come first; nothing points down the table.
LEAVES = "codec errors hints"
ALLOWED: dict[str, str] = {
    "errors": "",
    "hints": "",
    "codec": "",
    "model": f"{LEAVES}",
    "sinks": "errors model",
    "plan": f"{LEAVES} model",
    "expressions": f"{LEAVES} model",
    "columnar": f"{LEAVES} model expressions",
    "records": f"{LEAVES} expressions",
    "state": f"{LEAVES} columnar",
    "statistics": f"{LEAVES} model plan expressions columnar",
    "sql": f"{LEAVES} model",
    "planner": f"{LEAVES} model plan",
    "topology": f"{LEAVES} model plan",
    "explain": f"{LEAVES} model plan topology planner",
    "optimizer": f"{LEAVES} model plan sql planner topology explain",
    "protocol": f"{LEAVES} model columnar statistics",
    "workers": f"{LEAVES} model plan expressions columnar state statistics protocol",
    "kafka": "errors hints expressions records protocol",
    "delivery": f"{LEAVES} expressions state sinks kafka",
    "coordinator.lifecycle": f"{LEAVES} model plan topology protocol",
    "coordinator.control": f"{LEAVES} model plan sql planner expressions state protocol",
    "coordinator.adaptive": f"{LEAVES} model plan sql planner topology state statistics protocol coordinator.control",
    "coordinator.checkpoint": (
        f"{LEAVES} model plan topology state protocol coordinator.lifecycle coordinator.control coordinator.adaptive"
    ),
    "coordinator": (
        f"{LEAVES} model plan topology explain expressions state protocol workers "
        "coordinator.lifecycle coordinator.control coordinator.adaptive coordinator.checkpoint"
    ),
    "inprocess": f"{LEAVES} model plan state protocol workers coordinator coordinator.control sql",
    "spark": (
        f"{LEAVES} model plan sql explain expressions state protocol workers coordinator coordinator.control coordinator.checkpoint "
        "sinks delivery kafka records"
    ),
    "operations": f"{LEAVES} state protocol coordinator coordinator.control coordinator.checkpoint",
    "sources": "spark",
    "job": (
        f"{LEAVES} model plan sql records kafka state sinks coordinator coordinator.control coordinator.checkpoint spark sources operations"
    ),
    "server": "errors job plan explain optimizer coordinator coordinator.control",
    "clash": f"{LEAVES} model optimizer sinks sources spark server",
    "cli": f"{LEAVES} model sql topology explain optimizer spark clash operations sinks job server",
}
# Libraries that only one package, or a few, may import.
ONLY_IN: dict[str, set[str]] = {
    "pyspark": {"spark"},
    "py4j": {"spark"},
    "sqlglot": {"sql"},
    "highspy": {"planner"},
    "typer": {"cli"},
    "pydantic": {"job", "server"},
    "yaml": {"job"},
    "starlette": {"server"},
    "uvicorn": {"server"},
    "prometheus_client": {"server"},
    "confluent_kafka": {"kafka", "delivery"},
    "msgspec": {"records"},
    "fastavro": {"records"},
    "psycopg": {"delivery", "sinks"},
}
NESTED = tuple(name.partition(".")[2] for name in ALLOWED if name.startswith("coordinator."))


def package_of(module: str) -> str:
    """`clash.coordinator.lifecycle.epochs` is in `coordinator.lifecycle`, `clash.errors` in `errors`."""
    parts = module.split(".")
    if len(parts) == 1:
        return "clash"
    return ".".join(parts[1:3]) if parts[1] == "coordinator" and parts[2:3] and parts[2] in NESTED else parts[1]


def imports(file: Path) -> Iterator[str]:
    """Every imported module: at the top, inside functions and under TYPE_CHECKING."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            for name in node.names:
                submodule = f"{node.module}.{name.name}"
                yield submodule if _is_module(submodule) else str(node.module)


def _is_module(name: str) -> bool:
    path = ROOT.parent / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").exists()


def modules() -> list[tuple[str, Path]]:
    found = []
    for file in sorted(ROOT.rglob("*.py")):
        name = ".".join(file.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
        found.append((name, file))
    return found


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_the_table_allows(package: str) -> None:
    allowed = {package, *ALLOWED[package].split()}
    for module, file in modules():
        if package_of(module) != package:
            continue
        for imported in imports(file):
            top = imported.split(".")[0]
            if top == "clash":
                assert package_of(imported) in allowed, f"{module} imports {imported}"
            assert package in ONLY_IN.get(top, {package}), f"{module} imports {imported}"


def test_every_package_is_in_the_table() -> None:
    assert {package_of(module) for module, _ in modules()} == set(ALLOWED)


def test_no_package_imports_one_that_imports_it() -> None:
    """The table is in order: each package only imports packages above it."""
    order = list(ALLOWED)
    for package, allowed in ALLOWED.items():
        above = order[: order.index(package)]
        assert set(allowed.split()) <= set(above), f"{package} imports {set(allowed.split()) - set(above)}"


def test_the_table_allows_nothing_that_is_not_used() -> None:
    used: dict[str, set[str]] = {package: set() for package in ALLOWED}
    for module, file in modules():
        used[package_of(module)] |= {package_of(name) for name in imports(file) if name.split(".")[0] == "clash"}
    leaves = set(LEAVES.split())
    for package, allowed in ALLOWED.items():
        unused = set(allowed.split()) - leaves - used[package]
        assert not unused, f"{package} no longer imports {unused}"
