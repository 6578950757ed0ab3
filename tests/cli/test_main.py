"""The command line: help, version, the hand-over to the benchmarks, and that no mistake ends in a stack trace."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from clash.cli import bench as bench_command
from clash.cli.main import app
from clash.cli.report import show_error
from clash.errors import ClashError
from clash_bench import cli as benchmarks

EXPLAIN_OPTIONS = (
    "--query",
    "--statistics",
    "--format",
    "--workers",
    "--strategy",
    "--cost",
    "--layouts",
    "--no-mirs",
    "--time-limit",
    "--worth",
    "--why",
)


def clash(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


def mistake(*arguments: str) -> str:
    """What is reported on stderr; there must be no stack trace, and nothing on stdout."""
    result = clash(*arguments)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("explain", "demo", "bench", "--version")),
        (("explain",), EXPLAIN_OPTIONS),
        (("demo",), ("--workers", "--minutes")),
        (("bench",), ("ilp", "paper-ilp", "tpch")),
        (("bench", "ilp"), ("--sizes", "--counts", "--formulations", "--layouts", "--time-limit", "--repeat", "--out")),
        (("bench", "paper-ilp"), ("--repetitions", "--out")),
        (
            ("bench", "tpch"),
            ("--queries", "--scale", "--batches", "--strategy", "--workers", "--repeat", "--latency", "--state"),
        ),
    ],
)
def test_help(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    result = clash(*arguments, "--help")
    assert result.exit_code == 0
    assert [word for word in words if word not in result.stdout] == []


def test_version() -> None:
    result = clash("--version")
    assert (result.exit_code, result.stdout) == (0, f"clash {version('clash-on-spark')}\n")


def test_help_loads_neither_spark_nor_the_solver() -> None:
    program = (
        "import sys, clash.cli.main\n"
        "heavy = {'pyspark', 'highspy', 'sqlglot', 'numba', 'numpy', 'pandas', 'pyarrow', 'matplotlib', 'duckdb', 'clash_bench'}\n"
        "sys.exit(', '.join(sorted(heavy & sys.modules.keys())) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_entry_point_reports_and_exits_with_two(tmp_path: Path) -> None:
    program = "from clash.cli.main import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", program, "explain", str(tmp_path / "none.sql")], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: the job file cannot be read\n  detail: ")
    assert "Traceback" not in ran.stderr


def test_nothing_to_explain() -> None:
    assert mistake("explain") == (
        'error: no query to explain\n  hint: give a job file, or --query "q1=SELECT …"; `clash demo` shows an example\n'
    )


def test_query_without_a_name() -> None:
    assert "detail: SELECT 1" in mistake("explain", "-q", "SELECT 1")


@pytest.mark.parametrize(
    ("arguments", "what", "detail"),
    [
        (("explain", "--format", "png"), "a value that --format does not take", "'png' is not one of"),
        (("explain", "--strategy", "best"), "a value that --strategy does not take", "'independent', 'shared', 'global'"),
        (("explain", "--workers", "0"), "a value that --workers does not take", "greater than or equal to 1"),
        (("explain", "--workers", "many"), "a value that --workers does not take", "integer"),
        (("explain", "--time-limit", "-1"), "a value that --time-limit does not take", "greater than or equal to 0"),
        (("explain", "--strategy"), "requires an argument", "--strategy"),
        (("explain", "a.sql", "b.sql"), "b.sql", "clash explain"),
        (("bench", "nothing"), "no such command 'nothing'", "clash bench"),
        (("bench", "ilp", "--repeat", "0"), "a value that --repeat does not take", "greater than or equal to 1"),
        (("nothing",), "no such command 'nothing'", "clash"),
        (("--nothing",), "unknown option", "clash --nothing"),
    ],
)
def test_wrong_options(arguments: tuple[str, ...], what: str, detail: str) -> None:
    lines = mistake(*arguments).splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "  detail", "  hint"]
    assert what in lines[0]
    assert detail in lines[1]
    assert "--help`" in lines[2]


def test_a_misspelt_option_names_the_nearest() -> None:
    assert "hint: did you mean --layouts?" in mistake("explain", "--layout", "one")


@pytest.mark.parametrize("arguments", [(), ("bench",)])
def test_no_command_shows_the_help(arguments: tuple[str, ...]) -> None:
    result = clash(*arguments)
    assert "Usage: clash" in result.stdout + result.stderr
    assert isinstance(result.exception, SystemExit)


def test_a_mistake_in_a_job_is_found_by_the_file_s_lines(tmp_path: Path) -> None:
    job = tmp_path / "job.sql"
    job.write_text("-- name: q1\nSELECT R.a FROM R JOIN S ON R.a = S.a;\n-- name: q2\n\nSELECT R.a\nFROM R LEFT JOIN S ON R.a = S.a\n")
    assert f"detail: {job}, query q2, line 6, column 8: LEFT JOIN S" in mistake("explain", str(job))
    assert "detail: query q3, line 1, column 17: LEFT JOIN S" in mistake("explain", "-q", "q3=SELECT * FROM R LEFT JOIN S ON R.a = S.a")


def test_missing_statistics(tmp_path: Path) -> None:
    assert "cannot read the statistics" in mistake("explain", "-q", "q=R(a), S(a)", "--statistics", str(tmp_path / "none.json"))


def test_rates_of_streams_that_no_query_reads_are_noted(tmp_path: Path) -> None:
    (tmp_path / "rates.json").write_text('{"rates": {"R": 10, "Sss": 20}}')
    result = clash("explain", "-q", "q=R(a), S(a)", "--statistics", str(tmp_path / "rates.json"))
    assert (result.exit_code, result.stderr) == (0, "note: the statistics have rates of streams that no query reads: Sss\n")


@pytest.mark.parametrize(("written", "start"), [("text", "PLAN for 1 query"), ("json", "{"), ("dot", "digraph")])
def test_formats(written: str, start: str) -> None:
    result = clash("explain", "-q", "q=R(a), S(a)", "--format", written)
    assert result.exit_code == 0
    assert result.stdout.startswith(start)


@pytest.mark.parametrize("value", ["", "3,,4", "0", "-3", "3;4", "³", "99999999"])
def test_bench_refuses_malformed_lists(value: str) -> None:
    assert "not a list of positive numbers: --sizes" in mistake("bench", "ilp", "--sizes", value)


def test_bench_refuses_unknown_names() -> None:
    assert "'fast'" in mistake("bench", "ilp", "--formulations", "compact,fast")


def test_bench_refuses_unknown_sets_of_queries() -> None:
    assert "detail: --queries 7" in mistake("bench", "tpch", "--queries", "7")


def test_bench_passes_its_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, dict[str, Any]] = {}

    def load(module: str) -> SimpleNamespace:
        return SimpleNamespace(run=lambda **options: seen.update({module: options}))

    monkeypatch.setattr(benchmarks, "import_module", load)
    assert clash("bench", "ilp", "--sizes", "3, 4", "--counts", "10", "--layouts", "many", "--time-limit", "5", "--out", "x").exit_code == 0
    assert clash("bench", "paper-ilp", "--repetitions", "7").exit_code == 0
    assert clash("bench", "tpch", "--queries", "10", "--strategy", "shared", "--state").exit_code == 0
    assert seen == {
        "clash_bench.ilp": {
            "sizes": (3, 4),
            "counts": (10,),
            "formulations": ("published", "compact"),
            "layouts": ("many",),
            "time_limit": 5.0,
            "repeat": 1,
            "out": Path("x"),
        },
        "clash_bench.paper_ilp": {"repetitions": 7, "out": Path("bench/results")},
        "clash_bench.tpch": {
            "queries": 10,
            "random": 0,
            "scale": 0.1,
            "batches": 10,
            "strategy": "shared",
            "workers": 2,
            "repeat": 1,
            "latency": False,
            "growth": False,
            "state": True,
            "data": Path("bench/data"),
            "out": Path("bench/results"),
        },
    }


@pytest.mark.parametrize(("missing", "hint"), [("matplotlib", "clash-on-spark[bench]"), ("clash_bench.ilp", "clash bench --help")])
def test_bench_reports_what_is_missing(monkeypatch: pytest.MonkeyPatch, missing: str, hint: str) -> None:
    def load(module: str) -> SimpleNamespace:
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.setattr(benchmarks, "import_module", load)
    report = mistake("bench", "ilp")
    assert f"detail: {missing}" in report
    assert hint in report


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process: the benchmarks are neither loaded nor on the path."""
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not (Path(entry) / "clash_bench").exists()])
    for name in [name for name in sys.modules if name.split(".")[0] == "clash_bench"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("unloaded")
def test_the_clone_s_benchmarks_are_found_from_any_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert "paper-ilp" in clash("bench", "--help").stdout


@pytest.mark.usefixtures("unloaded")
def test_a_folder_bench_in_the_working_directory_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bench" / "clash_bench").mkdir(parents=True)
    (tmp_path / "bench" / "clash_bench" / "cli.py").write_text(
        "import typer\napp = typer.Typer()\n@app.command()\ndef one(): ...\n@app.command()\ndef two(): ...\n"
    )
    monkeypatch.setattr(bench_command, "find_benchmarks", partial(bench_command.find_benchmarks, tmp_path / "site-packages"))
    monkeypatch.chdir(tmp_path)
    assert {"one", "two"} <= set(clash("bench", "--help").stdout.split())


@pytest.mark.parametrize("arguments", [("bench",), ("bench", "--help"), ("bench", "tpch", "--scale", "0.1")])
@pytest.mark.usefixtures("unloaded")
def test_without_the_repository_bench_says_where_the_benchmarks_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr(bench_command, "find_benchmarks", partial(bench_command.find_benchmarks, tmp_path / "site-packages"))
    monkeypatch.chdir(tmp_path)
    lines = mistake(*arguments).splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "  detail", "  hint"]
    assert "not part of the installed package" in lines[0]
    assert "in the repository" in lines[1]
    assert "clone the repository" in lines[2]


def test_the_benchmarks_run_as_a_module() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(benchmarks.__file__).parents[1]), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "clash_bench", "tpch", "--queries", "7"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: no such set of TPC-H queries\n  detail: --queries 7\n")


def test_square_brackets_in_a_message_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    show_error(ClashError("no such layout", "R » S[b] [red]", "write S[a]"))
    assert capsys.readouterr().err == "error: no such layout\n  detail: R » S[b] [red]\n  hint: write S[a]\n"
