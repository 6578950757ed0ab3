"""How `clash run` ends: its exit codes, and what it leaves behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clash.cli.main import app

CLASH = [sys.executable, "-c", "from clash.cli.main import main; main()"]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    result = CliRunner().invoke(app, ["init", str(folder)])
    assert result.exit_code == 0, result.output
    path = folder / "job.yaml"
    path.write_text(path.read_text().replace("spark.driver.memory: 2g", "spark.driver.memory: 1g"))
    return path


def start(job: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*CLASH, "run", str(job), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        return process.communicate(timeout=300)
    finally:
        process.kill()


def test_a_job_that_fails_ends_with_1_and_says_why_in_the_log(job: Path) -> None:
    text = job.read_text().replace("p.amount FROM", "o.total / (p.amount - p.amount) AS share FROM")
    job.write_text(text)
    process = start(job, "--no-ui", "--once", "--log-format", "json", "--json")
    output, log = ended(process)
    assert process.returncode == 1, log
    assert "Traceback" not in output + log
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    failed = next(line for line in lines if line["level"] == "error")
    assert "the run has failed: " in failed["message"]
    assert "hint" in failed["message"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_run_that_works_and_the_next_one_goes_on(job: Path, number: signal.Signals, code: int) -> None:
    process = start(job, "--ui", "127.0.0.1:0")
    manifests = job.parent / "state" / "clash"
    wait_for(lambda: (job.parent / "state" / "server.json").exists() and any(manifests.glob("manifest*")), process)
    process.send_signal(number)  # batches follow each other: one is in work
    output, log = ended(process)
    assert process.returncode == code, log
    assert "ended; batch" in output
    assert "Traceback" not in output + log
    assert not (job.parent / "state" / "server.json").exists()
    again = start(job, "--no-ui", "--once")
    output, log = ended(again)
    assert again.returncode == 0, log
