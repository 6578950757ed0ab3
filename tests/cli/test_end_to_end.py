"""A job from `clash init` to its end, in processes of its own: every command, Ctrl-C, a changed file, spark-submit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from clash.cli.client import Client
from clash.cli.demo_data import WAREHOUSES
from clash.cli.main import app
from clash.server.connection import find_connection

CLASH = [sys.executable, "-c", "from clash.cli.main import main; main()"]
TABLE = """
tables:
  warehouses: { format: csv, path: ./warehouses, schema: "name string, city string" }
queries:
  from_city:
    sql: SELECT s.shipment_id, w.city FROM shipments s JOIN warehouses w ON s.warehouse = w.name
    sink: { parquet: ./out/from_city }
"""
PAIR = "SELECT o.order_id, s.warehouse FROM orders o JOIN shipments s USING (order_id)"
SECRET = "hunter2secret"


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def put_more(folder: Path, number: int) -> None:
    """Once more the last file of each stream, as of new orders of a later time."""
    for stream in ("orders", "payments", "shipments"):
        rows = pq.read_table(folder / "in" / stream / "00007.parquet")
        times = pc.add(rows["ts"], pa.scalar(timedelta(seconds=number)))
        ids = pc.add(rows["order_id"], 1_000_000 * number)
        rows = rows.set_column(rows.column_names.index("ts"), "ts", times).set_column(0, "order_id", ids)
        hidden = folder / "in" / stream / f".{number:05d}-more.parquet"
        pq.write_table(rows, hidden)
        hidden.rename(hidden.with_name(hidden.name[1:]))


def put_table(folder: Path, version: str) -> None:
    """The table of warehouses, whose cities are of this version."""
    (folder / "warehouses").mkdir(exist_ok=True)
    rows = "".join(f"{name},{version} {name}\n" for name in WAREHOUSES)
    (folder / "warehouses" / "rows.csv").write_text(rows)


def wait_for(what: Any, process: subprocess.Popen[str]) -> Any:
    while process.poll() is None:
        found = what()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(process.communicate()[1])


def changed(folder: Path, number: int, *command: object) -> str:
    """Requests a change, and lets rows arrive after it, which make a boundary."""
    requested = Thread(target=lambda: answers.append(call(*command, "--wait", 60, "--job", folder / "job.yaml")))
    answers: list[str] = []
    requested.start()
    for more in range(100 * number, 100 * number + 60):
        requested.join(1)
        if not requested.is_alive():
            break
        put_more(folder, more)
    requested.join()
    return answers[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("end") / "shop"
    call("init", made)
    job = (made / "job.yaml").read_text()
    job = job.replace("{ spark.driver.memory: 2g }", '{ spark.driver.memory: 1g, clash.test.password: "${CLASH_TEST_PASSWORD}" }')
    job = job.replace("\nqueries:\n", TABLE)
    put_table(made, "old")
    (made / "job.yaml").write_text(job.replace("checkpoint: ./state ", 'checkpoint: "./${CLASH_TEST_PASSWORD}" '))
    return made


def test_a_job_from_its_file_to_its_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLASH_TEST_PASSWORD", SECRET)
    job, checkpoint = folder / "job.yaml", folder / SECRET
    process = subprocess.Popen(
        [*CLASH, "run", str(job), "--ui", "127.0.0.1:0", "--log-format", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for((checkpoint / "server.json").exists, process)
        connection = find_connection(str(checkpoint))
        client = Client(connection.address, connection.token)
        wait_for(lambda: client.get("/api/status")["progress"]["totals"]["batches"] >= 4, process)
        _use_every_command(folder, client)
    finally:
        process.send_signal(signal.SIGINT)
        output, log = process.communicate(timeout=120)
    assert process.returncode == 130, log
    assert "ended; batch" in output
    assert SECRET not in output + log
    assert not (checkpoint / "server.json").exists()
    lines = [json.loads(line) for line in log.splitlines()]
    assert lines
    assert all({"time", "level", "message", "job", "batch", "epoch", "generation", "query"} <= line.keys() for line in lines)
    committed = [line for line in lines if "committed" in line["message"]]
    assert committed[-1]["job"] == "shop"
    assert committed[-1]["batch"] >= 4

    _change_the_file_and_submit_it(folder)


def _use_every_command(folder: Path, client: Client) -> None:
    here = ("--job", folder / "job.yaml")
    assert "active" in call("status", *here)
    assert "fulfilment" in call("queries", *here)
    assert "stored already" in call("what-if", PAIR, *here)
    assert "in effect" in changed(folder, 1, "query", "add", "pair", PAIR, "--sink", "{parquet: out/pair}")
    assert "in effect" in changed(folder, 2, "query", "replace", "pair", PAIR.replace("warehouse", "shipment_id"))
    assert "in effect" in changed(folder, 3, "query", "remove", "pair")
    assert "in effect" in changed(folder, 4, "rescale", 3)
    put_table(folder, "new")
    assert "refresh warehouses: in effect" in changed(folder, 5, "table", "refresh", "warehouses")
    assert "query pair added" in call("generations", *here)
    assert len(call("results", "paid", "-n", 5, "--json", *here).splitlines()) == 5
    for path in ("status", "topology", "queries", "generations", "openapi.json", "results/fulfilment?last=2"):
        assert client.get(f"/api/{path}")
    text = subprocess.run(
        ["curl", "-sS", "--noproxy", "*", "-H", f"Authorization: Bearer {client._token}", f"{client.address}/metrics"],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    assert not text or 'clash_results_total{query="paid"}' in text


def _change_the_file_and_submit_it(folder: Path) -> None:
    job = folder / "job.yaml"
    text = job.read_text().replace("queries:\n", f"queries:\n  late_pair: {{ sql: '{PAIR}', sink: {{ parquet: ./out/late_pair }} }}\n")
    job.write_text(text.replace("workers: 2 ", "workers: 4 "))
    difference = call("diff", job)
    assert "query late_pair added" in difference
    assert "workers 3 → 4" in difference
    assert "query late_pair adds" in difference
    put_more(folder, 900)
    submit = Path(sys.executable).with_name("spark-submit")
    ended = subprocess.run(
        [str(submit), "--master", "local[1]", call("script").strip(), str(job), "--once", "--no-ui", "--json"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    batches = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    assert "late_pair" in batches[-1]["results"]
    assert "nothing changes" in call("diff", job)
    with duckdb.connect() as connection:
        for stream in ("orders", "payments", "shipments"):
            connection.execute(f"CREATE VIEW {stream} AS FROM read_parquet('{folder}/in/{stream}/*.parquet')")
        times = "o.ts, p.ts, s.ts"
        expected = connection.execute(
            f"{(folder / 'fulfilment.sql').read_text()} WHERE greatest({times}) - least({times}) <= INTERVAL 10 MINUTE ORDER BY ALL"
        ).fetchall()
        connection.execute(f"CREATE VIEW from_city AS FROM read_parquet('{folder}/out/from_city/*.parquet')")
        versions = connection.execute("SELECT DISTINCT left(city, 3), right(city, -4) FROM from_city ORDER BY ALL").fetchall()
        joined = connection.execute("SELECT (SELECT count(*) FROM from_city), (SELECT count(*) FROM shipments)").fetchall()
        found = connection.execute(f"FROM read_parquet('{folder}/out/fulfilment/*.parquet') ORDER BY ALL").fetchall()
    assert found == expected
    assert versions == sorted((version, name) for version in ("old", "new") for name in WAREHOUSES)
    assert joined[0][0] == joined[0][1]
