"""The log of a command: JSON with the position of the run in every line."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from clash.cli.logs import LogPosition, configure_logging


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("clash")
    before = logger.handlers[:], logger.propagate, logger.level
    yield logger
    logger.handlers[:], logger.propagate = before[0], before[1]
    logger.setLevel(before[2])


def test_json_has_all_keys_and_no_secret(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    position = LogPosition("shop")
    configure_logging("json", position, lambda text: text.replace("hunter2", "${S}"))
    logger.warning("stream %s has no lateness", "hunter2")
    position.run = SimpleNamespace(position={"batch": 7, "epoch": 3, "generation": 1})
    logger.info("query paid joins\nby event time")
    try:
        raise ValueError("hunter2")
    except ValueError:
        logger.exception("it failed")
    first, second, third = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert first.keys() == {"time", "level", "logger", "message", "job", "batch", "epoch", "generation", "query"}
    assert (first["level"], first["message"], first["batch"], first["query"]) == ("warning", "stream ${S} has no lateness", None, None)
    assert (second["job"], second["batch"], second["epoch"], second["generation"], second["query"]) == ("shop", 7, 3, 1, "paid")
    assert "ValueError: ${S}" in third["exception"]


def test_text_has_what_needs_attention(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logger.setLevel(logging.NOTSET)
    configure_logging("text", LogPosition("shop"), str)
    logger.info("batch 7 committed")
    logger.warning("look here")
    assert capsys.readouterr().err == "WARNING: look here\n"
