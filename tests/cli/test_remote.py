"""The commands against a run, over a server whose run is a fake."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.fake_run import FakeRun
from typer.testing import CliRunner

from clash.cli.main import app
from clash.server.context import JobContext
from clash.server.serve import Server, serve

SQL = "SELECT * FROM orders JOIN payments USING (order_id)"


@pytest.fixture
def run() -> FakeRun:
    return FakeRun()


@pytest.fixture
def server(run: FakeRun, tmp_path: Path) -> Iterator[Server]:
    started = serve(run, "127.0.0.1:0", job=JobContext("shop", str(tmp_path), tmp_path.with_name("job")))
    yield started
    started.stop()


def call(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


def test_the_file_of_a_run_is_its_owner_s_and_goes_with_it(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "server.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["token"] == server.access.token
    server.stop()
    assert not file.exists()


def test_the_file_of_another_run_stays(run: FakeRun, server: Server, tmp_path: Path) -> None:
    later = serve(run, "127.0.0.1:0", job=JobContext("shop", str(tmp_path), tmp_path.with_name("job")))
    server.stop()
    assert json.loads((tmp_path / "server.json").read_text())["address"] == later.address
    later.stop()


def test_every_command(server: Server, run: FakeRun, tmp_path: Path) -> None:
    here = ("--job", tmp_path)
    assert "batch 7 of generation 0" in call("status", *here)
    assert json.loads(call("status", "--json", *here))["active"] is True
    assert "paid" in call("queries", *here)
    assert json.loads(call("queries", "--json", *here))[0]["name"] == "paid"
    assert "add sent: in effect from batch 8 on" in call(
        "query", "add", "sent", SQL, "--sink", "{parquet: out/sent}", "--window", "orders=5 s", *here
    )
    assert run.options["windows"] == {"orders": "5 s"}
    assert run.options["sink"].url == str(tmp_path.with_name("job") / "out/sent")
    (tmp_path / "q.sql").write_text(f"{SQL};\n")
    assert "replace sent" in call("query", "replace", "sent", "--file", tmp_path / "q.sql", "--sink", "memory", "--no-history", *here)
    assert run.queries["sent"] == SQL
    assert run.options["history"] is False
    assert json.loads(call("query", "remove", "sent", "--json", *here))["change"] == "remove sent"
    assert "rescale to 3" in call("rescale", 3, *here)
    assert "refresh customers: in effect from batch 8 on" in call("table", "refresh", "customers", *here)
    assert "start" in call("generations", *here)
    assert json.loads(call("generations", "--json", *here))[0]["generation"] == 0
    assert "1152921504606846976" in call("results", "paid", *here)
    rows = [json.loads(line) for line in call("results", "paid", "--json", "-n", 1, *here).splitlines()]
    assert rows == [{"order_id": 1, "page": "<script>alert(1)</script>"}]
    assert json.loads(call("what-if", SQL, "--replaces", "paid", "--json", *here))["marginal"] == 0
    assert run.options["replaces"] == "paid"


def test_by_address_with_a_token(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text(f"{server.access.token}\n")
    assert "batch 7" in call("status", "--job", server.address, "--token-file", tmp_path / "token")
    assert "batch 7" in call("status", "--job", server.url)
    monkeypatch.setenv("CLASH_TOKEN", "a-wrong-token-of-the-tests")
    assert "the token is missing or wrong" in call("status", "--job", server.address, code=2)
    monkeypatch.setenv("CLASH_TOKEN", server.access.token)
    monkeypatch.setenv("CLASH_JOB", server.address)
    assert "batch 7" in call("status")


def test_what_the_run_refuses(server: Server, tmp_path: Path) -> None:
    here = ("--job", tmp_path)
    assert "the query cannot be parsed" in call("query", "add", "x", "SELEC", *here, code=2)
    assert "hint: write SELECT" in call("what-if", "SELEC", *here, code=2)
    assert "not allowed" in call("query", "remove", "../x", *here, code=2)
    assert "unknown query" in call("results", "nothing", *here, code=2)
    assert "unknown table" in call("table", "refresh", "nothing", *here, code=2)
    assert "a query has one text" in call("query", "add", "x", *here, code=2)
    assert "a value that --window does not take" in call("query", "add", "x", SQL, "--window", "orders", *here, code=2)
    assert "not what this address takes" in call("query", "add", "x", SQL, "--sink", "{foreach: f}", *here, code=2)
    assert "the file is not YAML" in call("query", "add", "x", SQL, "--sink", "{", *here, code=2)


def test_what_comes_from_data_does_not_reach_the_terminal_as_control(server: Server, run: FakeRun, tmp_path: Path) -> None:
    run.queries = {"paid": "SELECT '\x1b[2J[bold]x'"}
    output = call("queries", "--job", tmp_path)
    assert "\x1b" not in output
    assert "[bold]x" in output


def test_results_are_followed_until_ctrl_c(server: Server, run: FakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = iter([None, None, KeyboardInterrupt()])

    def sleep(_seconds: float) -> None:
        if (end := next(waits)) is not None:
            raise end

    monkeypatch.setattr("clash.cli.remote.time.sleep", sleep)
    lines = call("results", "paid", "-n", 1, "--follow", "--json", "--job", tmp_path, code=130).splitlines()
    assert len(lines) == 1 + 2 * 2
