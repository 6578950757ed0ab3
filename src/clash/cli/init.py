"""`clash init`: a job to begin with, which runs as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from clash.errors import OptionError

_JOB = """\
# yaml-language-server: $schema=./job.schema.json
# A job: streams, and continuous queries over them. `clash check` checks it, `clash run` runs it; docs/job-file.md explains every key.
name: shop
checkpoint: ./state            # the state of the job: started again, it goes on from there

# Options that the streams have in common; keys that begin with x- are ignored.
x-timed: &timed
  format: parquet              # any format of Spark's, or kafka with a topic
  time: ts                     # the column with the event time
  window: 10 minutes           # how long a row can join later rows
  lateness: 1 minute           # rows that come later than this are kept apart
  options: { maxFilesPerTrigger: 2 }

streams:
  orders:    { <<: *timed, path: ./in/orders, schema: "order_id long, customer_id long, total decimal(10,2), ts timestamp" }
  payments:  { <<: *timed, path: ./in/payments, schema: "order_id long, amount decimal(10,2), ts timestamp" }
  shipments: { <<: *timed, path: ./in/shipments, schema: "order_id long, shipment_id long, warehouse string, ts timestamp" }

queries:
  # Without a sink, results are kept under the checkpoint: `clash results paid` shows them.
  paid:
    sql: SELECT o.order_id, o.customer_id, p.amount FROM orders o JOIN payments p USING (order_id)
  # With one they go to parquet, kafka, postgres, console or memory.
  fulfilment:
    file: fulfilment.sql
    sink: { parquet: ./out/fulfilment }

engine:
  workers: 2                   # the stores are partitioned over them
  epoch: 1 second              # how often the plan may change

spark:
  master: "local[2]"
  # Values of the environment are written ${NAME}; they are never shown.
  config: { spark.driver.memory: 2g }
"""
_SQL = """\
-- What was paid for, and where does it come from? Shares the join of orders and payments with the query `paid`.
SELECT o.order_id, p.amount, s.warehouse
FROM orders o
  JOIN payments p USING (order_id)
  JOIN shipments s USING (order_id)
"""
_IGNORED = "state/\nout/\n"
_MINUTES = 4
_RATES = {"clicks": 10.0, "orders": 600.0, "tickets": 10.0}  # tuples per minute
_STREAMS = ("orders", "payments", "shipments")


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make; it must be new or empty.")],
) -> None:
    """Write a commented job file with sample data, which runs as it is."""
    folder = folder.expanduser()
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise OptionError("the folder is not empty", str(folder), "name a new one: clash init DIR")
        _write(folder)
    except OSError as error:
        raise OptionError("the folder cannot be written", f"{folder}: {error.strerror}", "name a folder of yours") from None
    job = folder / "job.yaml"
    typer.echo(f"{folder}: a job with {len(_STREAMS)} streams, two queries and sample data")
    typer.echo(f"  clash check {job}")
    typer.echo(f"  clash run {job}            # prints the address of its page; Ctrl-C ends it, a new start goes on")
    typer.echo(f"  clash results paid --job {job}    # in another terminal")


def _write(folder: Path) -> None:
    from clash.cli.demo_data import SLICE, history, write_slice
    from clash.job.model import json_schema

    folder.mkdir(parents=True, exist_ok=True)
    tables = {name: table for name, table in history(_MINUTES, _RATES).items() if name in _STREAMS}
    for name in tables:
        (folder / "in" / name).mkdir(parents=True)
    for number in range(_MINUTES * 60_000_000 // SLICE):
        write_slice(tables, number, folder / "in")
    (folder / "job.yaml").write_text(_JOB, encoding="utf-8")
    (folder / "fulfilment.sql").write_text(_SQL, encoding="utf-8")
    (folder / "job.schema.json").write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
    (folder / ".gitignore").write_text(_IGNORED, encoding="utf-8")
