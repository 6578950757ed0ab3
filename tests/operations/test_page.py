"""docs/operations.md stays true: its commands run, its examples are well formed, and every error that an operator can meet is on it."""

from __future__ import annotations

import ast
import configparser
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clash.cli.main import app

from .jobs import contents, expected, run, start

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
OPERATING = ("StateError", "CheckpointError", "SinkError", "SourceError", "ClashError")  # whoever raises them
WITH_OPTIONS = ("operations/", "coordinator/control/folder_owner")  # where an OptionError is not one of the program's author


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def texts(node: ast.expr, module: ast.Module) -> Iterator[str]:
    """What an expression says, with … where a value stands; of a name, all that the module assigns to it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from (*texts(node.body, module), *texts(node.orelse, module))
    elif isinstance(node, ast.Name):
        for other in ast.walk(module):
            if isinstance(other, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in other.targets):
                yield from texts(other.value, module)


def errors() -> Iterator[str]:
    root = ROOT / "src" / "clash"
    for file in sorted(root.rglob("*.py")):
        name = file.relative_to(root).as_posix()
        module = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                kinds = (*OPERATING, "OptionError") if name.startswith(WITH_OPTIONS) else OPERATING
                if node.func.id in kinds and not name.startswith("cli/"):
                    yield from texts(node.args[0], module)


WHATS = sorted(set(errors()))


def test_errors_are_found() -> None:
    assert len(WHATS) > 50
    assert "a file of Spark's half of the checkpoint has changed" in WHATS
    assert "stream … cannot be read" in WHATS


@pytest.mark.parametrize("what", WHATS)
def test_every_error_is_on_the_page(what: str) -> None:
    assert f"\n| {what} |" in PAGE, f'add a line "| {what} | … |" to docs/operations.md: what it means, and what to do'


def test_no_error_is_on_the_page_that_does_not_exist() -> None:
    listed = PAGE.split("## What each error means")[1]
    on_page = {line.split("|")[1].strip() for line in listed.splitlines() if line.startswith("| ")} - {"what"}
    assert on_page == set(WHATS)


def test_the_commands_run(tmp_path: Path) -> None:
    """Those of the section on backups, over a job of ours in their places."""
    checkpoint, out = tmp_path / "data/checkpoints/shop", tmp_path / "data/results"
    run(start(checkpoint, out), 3)
    (commands,) = [block for block in blocks("sh") if "clash checkpoint" in block]
    script = commands.replace(" /data/", f" {tmp_path}/data/").replace("/backups/", f"{tmp_path}/backups/")
    clash = f'clash() {{ "{sys.executable}" -c "from clash.cli.main import main; main()" "$@"; }}\nset -e\n'
    ran = subprocess.run(["bash", "-c", clash + script], capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"})
    assert ran.returncode == 0, ran.stderr
    assert "batch 3 is the last" in ran.stdout
    assert contents(run(start(checkpoint, out), 5)) == expected(tmp_path / "whole", 5)


def test_every_option_of_the_commands_exists() -> None:
    for command in ("backup", "verify", "restore", "rollback"):
        shown = CliRunner().invoke(app, ["checkpoint", command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
        assert shown.exit_code == 0
        assert f"**`{command} " in PAGE or f"clash checkpoint {command}" in PAGE
        for option in re.findall(r"--[a-z-]+", shown.stdout):
            assert option in ("--help",) or option in PAGE, f"{command} {option}"


def test_the_examples_are_well_formed() -> None:
    for program in blocks("python"):
        compile(program, "operations.md", "exec")
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read_string(blocks("ini")[0])
    assert unit["Service"]["Restart"] == "on-failure"
    assert blocks("dockerfile")[0].count("\nUSER ") == 1
    manifest = blocks("yaml")[0]
    assert "replicas: 1" in manifest
    assert "type: Recreate" in manifest
