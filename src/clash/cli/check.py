"""`clash check`, `clash diff` and `clash schema`: a job file before it runs."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clash.cli.run_job import JobArgument, Master
from clash.cli.target import Json

if TYPE_CHECKING:
    from clash import sinks
    from clash.job.declared import Declared
    from clash.job.load import JobFile


def check(
    job: JobArgument = Path("job.yaml"),
    spark: Annotated[bool, typer.Option("--spark", metavar="", help="Also ask Spark: sources, schemas, functions. Starts it.")] = False,
    master: Master = None,
    as_json: Json = False,
) -> None:
    """Check a job file: keys, types, durations, schemas, queries and sinks. Nothing runs, and nothing is written.

    The exit code is 2 if something is wrong; file, line and key are named."""
    from clash.job.declared import declare
    from clash.job.load import load_job

    file = load_job(job)
    declared = declare(file)
    if spark:
        _ask_spark(file, declared, master)
    if as_json:
        typer.echo(json.dumps(_summary(file, declared, spark), indent=2, ensure_ascii=False))
        return
    hide = file.variables.hide
    typer.echo(f"{job}: job {file.job.name}, {len(file.job.streams)} streams, {len(file.job.queries)} queries")
    for name in file.job.queries:
        typer.echo(f"  {name} → {hide(_sink_text(declared.sinks[name]))}")
    for name, reason in {} if spark else declared.unchecked.items():
        typer.echo(f"note: only Spark can check query {name}: {reason}; `clash check --spark` asks it", err=True)
    typer.echo("no problem found")


def _ask_spark(file: JobFile, declared: Declared, master: str | None) -> None:
    from clash.job.build import build_engine, open_session

    temporary = tempfile.TemporaryDirectory(prefix="clash-check-", ignore_cleanup_errors=True)
    with temporary as folder, open_session(file, master, Path(folder) / "spark.log") as session:
        build_engine(file, session, declared)


def _summary(file: JobFile, declared: Declared, asked_spark: bool) -> dict[str, Any]:
    hide = file.variables.hide
    return {
        "job": file.job.name,
        "checkpoint": hide(file.checkpoint),
        "streams": {
            name: {"format": hide(stream.format), "columns": dict(declared.streams[name].columns) if name in declared.streams else None}
            for name, stream in file.job.streams.items()
        },
        "queries": {
            name: {"sink": hide(_sink_text(declared.sinks[name])), "checked": asked_spark or name not in declared.unchecked}
            for name in file.job.queries
        },
    }


def _sink_text(sink: sinks.Sink | None) -> str:
    from clash import sinks

    if sink is None:
        return "checkpoint"
    if isinstance(sink, sinks.Parquet):
        return f"parquet {sink.url}"
    if isinstance(sink, sinks.Kafka):
        return f"kafka topic {sink.topic}"
    if isinstance(sink, sinks.Postgres):
        return f"postgres table {sink.table}"
    return type(sink).__name__.lower()


def diff(job: JobArgument = Path("job.yaml"), as_json: Json = False) -> None:
    """Show what the next `clash run` of an edited file would change, and what each new query would cost. Nothing is written.

    The exit code is 0 whether something changes or not, and 2 if the start would be refused."""
    from clash.job.declared import declare
    from clash.job.difference import compare_with_checkpoint
    from clash.job.load import load_job

    file = load_job(job)
    difference = compare_with_checkpoint(file, declare(file))
    if as_json:
        typer.echo(json.dumps(difference.to_data(), indent=2, ensure_ascii=False))
        return
    if difference.is_first_start:
        typer.echo(f"there is no checkpoint at {file.variables.hide(file.checkpoint)}: this is a first start")
    elif not difference.changes:
        typer.echo("nothing changes")
    for change in difference.changes:
        typer.echo(f"  {change}")
    for cost in difference.costs:
        adds = f"adds {cost.marginal:,.0f} to the plan's {cost.before:,.0f}; alone it would cost {cost.alone:,.0f}"
        stored = f"; new stores: {', '.join(cost.new_stores)}" if cost.new_stores else "; no new store"
        typer.echo(f"  query {cost.query} {adds}{stored}")
    for name, reason in difference.unpriced.items():
        typer.echo(f"note: query {name} is not priced: {reason}", err=True)


def schema() -> None:
    """Print the JSON schema of job files, for editors that complete and check them."""
    from clash.job.model import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


def script() -> None:
    """Print the path of the program that runs a job file under spark-submit.

    For example: spark-submit --master spark://host:7077 "$(clash script)" job.yaml"""
    typer.echo(str(Path(__file__).with_name("submit.py")))
