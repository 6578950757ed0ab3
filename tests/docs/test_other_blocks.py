"""Code blocks that are neither Python nor SQL are what they look like: job files load, JSON parses, command lines have these options."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from clash.cli.main import app
from clash.job.declared import declare
from clash.job.load import parse_job
from clash_bench.cli import app as benchmarks

from .pages import DOCS, Block, blocks

PAGES = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]
_OPTION = re.compile(r"--?[a-zA-Z][\w-]*")


def each(*languages: str) -> list[Any]:
    found = [block for page in PAGES for language in languages for block in blocks(page, language)]
    return [pytest.param(block, id=f"{block.page}:{block.line}") for block in found]


@pytest.mark.parametrize("block", each("json"))
def test_json(block: Block) -> None:
    for line in block.text.strip().splitlines() if block.text.count("\n{") else [block.text]:
        json.loads(line)


@pytest.mark.parametrize("block", each("yaml", "yml"))
def test_yaml(block: Block, tmp_path: Path) -> None:
    """Whole job files are checked as `clash check` does."""
    data = yaml.safe_load(block.text)
    if isinstance(data, dict) and {"name", "streams", "queries"} <= data.keys():
        for name in re.findall(r"file: ([\w./-]+\.sql)", block.text):
            (tmp_path / name).write_text("SELECT o.order_id FROM orders o JOIN payments p USING (order_id)")
        text = re.sub(r"# yaml-language-server.*", "", block.text)
        variables = dict.fromkeys(re.findall(r"\$\{(\w+)", text), "1")
        declare(parse_job(text, tmp_path / "job.yaml", variables))


def command_lines(text: str) -> Iterator[list[str]]:
    """The arguments of every `clash …` of a block, also of one that is called with its path."""
    for line in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"^\s*\$ ", "", line)
        match = re.match(r"(?:[A-Z_]+=\S+ )*(?:\S*/)?clash (.*)", line.strip())
        if match:
            lexer = shlex.shlex(match[1], posix=True, punctuation_chars="|;&<>")
            lexer.whitespace_split, lexer.commenters = True, "#"
            arguments = []
            for word in lexer:
                if re.fullmatch(r"[|;&<>]+", word):
                    break
                arguments.append(word)
            yield arguments


@pytest.mark.parametrize("block", each("sh", "bash", "console"))
def test_command_lines(block: Block) -> None:
    """Commands and options exist; what they do is tested elsewhere."""
    for arguments in command_lines(block.text):
        rest = list(arguments)
        is_benchmark = rest[0] == "bench"  # its commands are loaded when it is called
        command: Any = typer.main.get_command(benchmarks if is_benchmark else app)
        rest = rest[is_benchmark:]
        while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
            assert rest[0] in command.commands, f"no such command: clash {shlex.join(arguments)}"
            command = command.commands[rest.pop(0)]
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
        given = [word.partition("=")[0] for word in rest if _OPTION.fullmatch(word.partition("=")[0])]
        assert [option for option in given if option not in known] == [], shlex.join(arguments)
