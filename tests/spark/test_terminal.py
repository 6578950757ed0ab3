"""What a user sees on a terminal: failures once and in few lines, a planned restart not at all, and a clean end on a signal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from . import terminal

PROGRAM = Path(__file__).with_name("terminal.py")


@contextmanager
def program(what: str, root: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), what, str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def printed(what: str, root: Path) -> dict[str, list[str]]:
    """By the section that the program announces, the lines in it."""
    with program(what, root) as process:
        text, _ = process.communicate(timeout=600)
    sections = dict[str, list[str]]()
    for part in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        title, *lines = part.splitlines()
        sections[title] = lines
    assert process.returncode == 0, text
    return sections


def test_a_failure_is_said_once_in_few_lines(java: None, tmp_path: Path) -> None:
    found = printed("fail", tmp_path)
    expected = {
        "sink": "clash.errors.SinkError: the sink of query q failed",
        "file": "clash.errors.SourceError: stream S cannot be read",
        "value": "clash.errors.DataError: division by zero",
        "function": "clash.errors.SourceError: stream R cannot be read",
        "worker": "clash.errors.ClashError: Spark lost a process that worked on the batch, again and again",
        "disk": "clash.errors.StateError: a file of the state cannot be written",
    }
    for case, what in expected.items():
        text = "\n".join(found[case])
        assert found[case].count(what) == 1, text
        assert text.count("  hint: ") == 1, text
        assert "\tat " not in text, text
        assert len(found[case]) <= 25, text
    assert "in locked" in "\n".join(found["sink"])  # the function of the user's that failed
    assert found["end"] == []


def test_a_planned_restart_is_not_seen(java: None, tmp_path: Path) -> None:
    for file in range(2):
        terminal.write(tmp_path, file)
    found = printed("restart", tmp_path)
    assert all(lines == [] for title, lines in found.items() if title != "ready"), found


@pytest.mark.parametrize(("number", "to_all", "code"), [(signal.SIGINT, True, 130), (signal.SIGTERM, False, 143)])
def test_a_signal_ends_the_program(java: None, tmp_path: Path, number: signal.Signals, to_all: bool, code: int) -> None:
    """From a terminal or systemd it goes to all processes, from a container's runtime to the first. The next start continues."""
    for file in range(2):
        terminal.write(tmp_path, file)
    with program("wait", tmp_path) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "waits" in line:
                break
        time.sleep(1)  # it waits now
        (os.killpg if to_all else os.kill)(process.pid, number)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == code, rest
    assert "Traceback" not in rest, rest
    assert "\tat " not in rest, rest
    assert len(rest.splitlines()) <= 5, rest
    found = printed("finish", tmp_path)
    assert f"results {3 * terminal.FILES**2}" in found
