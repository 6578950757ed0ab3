"""The commands on job files, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from clash.cli.main import app
from clash.job.model import json_schema


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("init") / "shop"
    result = CliRunner().invoke(app, ["init", str(folder)])
    assert result.exit_code == 0, result.output
    return folder


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert result.output.startswith("error: ")
    return result.output


def test_init_writes_a_job_with_its_schema(shop: Path) -> None:
    assert json.loads((shop / "job.schema.json").read_text()) == json_schema()
    assert (shop / "job.yaml").read_text().startswith("# yaml-language-server: $schema=./job.schema.json")
    assert len(list(shop.glob("in/*/*.parquet"))) == 24


def test_the_schema_accepts_the_job(shop: Path) -> None:
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    validator = jsonschema_rs.validator_for(json.loads(run("schema")))
    job = yaml.safe_load((shop / "job.yaml").read_text())
    validator.validate(job)
    assert not validator.is_valid({**job, "stream": {}})
    assert not validator.is_valid({**job, "engine": {"workers": "four"}})


def test_init_keeps_what_is_there(shop: Path, tmp_path: Path) -> None:
    assert "the folder is not empty" in refused("init", shop)
    (tmp_path / "file").write_text("")
    assert "the folder is not empty" in refused("init", tmp_path / "file")
    assert "cannot be written" in refused("init", "/proc/nothing/here")


def test_check(shop: Path) -> None:
    output = run("check", shop / "job.yaml")
    assert "3 streams, 2 queries" in output
    assert "no problem found" in output
    summary = json.loads(run("check", shop / "job.yaml", "--json"))
    assert summary["streams"]["orders"]["columns"]["total"] == "decimal(10,2)"
    assert summary["queries"]["paid"] == {"sink": "checkpoint", "checked": True}


def test_check_names_the_place(shop: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text((shop / "job.yaml").read_text().replace("o.customer_id, p.amount", "o.customer, p.amount"))
    output = refused("check", bad)
    assert f"{bad}, query paid, line 22, column 29" in output.replace("\n", "")
    assert "columns of orders are" in output
    assert "cannot be read" in refused("check", tmp_path / "nothing.yaml")
    assert "the job file cannot be read" in refused("run", tmp_path / "nothing.yaml")


def test_check_prints_no_value_of_a_variable(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUT", "/very/secret/place")
    job = tmp_path / "job.yaml"
    job.write_text((shop / "job.yaml").read_text().replace("./out/fulfilment", '"${OUT}/f"'))
    (tmp_path / "fulfilment.sql").write_text((shop / "fulfilment.sql").read_text())
    for command in ("check", "diff", "explain"):
        assert "secret" not in run(command, job)
    assert "secret" not in run("check", job, "--json")
    assert "parquet ${OUT}/f" in run("check", job)


def test_no_command_prints_the_place_of_a_checkpoint_from_a_variable(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "hunter2secret's"
    (place / "clash").mkdir(parents=True)
    (place / "clash" / "manifest-1.json").write_text("{}")
    monkeypatch.setenv("STATE", str(place))
    job = tmp_path / "job.yaml"
    job.write_text((shop / "job.yaml").read_text().replace("checkpoint: ./state ", 'checkpoint: "${STATE}" '))
    (tmp_path / "fulfilment.sql").write_text((shop / "fulfilment.sql").read_text())
    assert "hunter2secret" not in refused("status", "--job", job)
    assert "${STATE}" in refused("status", "--job", job)
    assert "hunter2secret" not in CliRunner().invoke(app, ["diff", str(job)]).output
    assert '"checkpoint": "${STATE}"' in run("check", job, "--json")


def test_explain_takes_both_kinds_of_files(shop: Path, tmp_path: Path) -> None:
    text = run("explain", shop / "job.yaml")
    assert "on 2 workers" in text
    assert "within orders 10 minutes" in text
    assert "on 3 workers" in run("explain", shop / "job.yaml", "--workers", "3")
    assert json.loads(run("explain", shop / "job.yaml", "--format", "json"))["workers"] == 2
    (tmp_path / "q.sql").write_text("-- name: q\nSELECT * FROM R JOIN S ON R.a = S.a")
    assert "on 4 workers" in run("explain", tmp_path / "q.sql")
    assert "no such column" in refused(
        "explain", shop / "job.yaml", "-q", "more=SELECT orders.nope FROM orders JOIN payments USING (order_id)"
    )


def test_diff_of_a_first_start(shop: Path) -> None:
    output = run("diff", shop / "job.yaml")
    assert "this is a first start" in output
    assert "query fulfilment adds" in output
    data = json.loads(run("diff", shop / "job.yaml", "--json"))
    assert data["is_first_start"]
    assert [cost["query"] for cost in data["costs"]] == ["paid", "fulfilment"]
    assert data["costs"][1]["marginal"] < data["costs"][1]["alone"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--no-ui", "--ui", "127.0.0.1:1"], "--no-ui excludes"),
        (["--ui", "0.0.0.0:4242"], "needs a token"),
        (["--ui", "nonsense"], "not an address"),
        (["--token-file", "/nothing/here"], "the file of the token cannot be read"),
        (["--log-format", "xml"], "a value that --log-format does not take"),
    ],
)
def test_options_of_run_are_checked_before_spark_starts(shop: Path, options: list[str], what: str) -> None:
    assert what in refused("run", shop / "job.yaml", *options)


def test_the_program_for_spark_submit() -> None:
    path = Path(run("script").strip())
    assert path.is_file()
    assert path.suffix == ".py"


def test_without_a_run(shop: Path, tmp_path: Path) -> None:
    assert "no run serves this checkpoint" in refused("status", "--job", shop / "job.yaml")
    assert "no run serves this checkpoint" in refused("queries", "--job", tmp_path)
    assert "neither a job file" in refused("status", "--job", "nothing")
    assert "needs the token" in refused("status", "--job", "http://127.0.0.1:1")
    assert "the run does not answer" in refused("status", "--job", "http://127.0.0.1:1?token=0123456789abcdef")
    assert "found by its address" in refused("status", "--job", "s3://bucket/x")


def test_why_a_query_is_expensive(shop: Path) -> None:
    name = json.loads(run("explain", shop / "job.yaml", "--format", "json"))["queries"][0]["name"]
    assert run("explain", shop / "job.yaml", "--why", name).startswith(f"WHY {name} costs ")
    assert json.loads(run("explain", shop / "job.yaml", "--why", name, "--format", "json"))["query"] == name
