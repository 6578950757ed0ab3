"""Commands against a run: status, queries, query add|replace|remove, table refresh, rescale, results, generations, what-if."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from clash.cli.target import DEFAULT, Json, Target, TokenFile, connect
from clash.errors import OptionError

query_app = typer.Typer(no_args_is_help=True, help="Add, replace or remove a query of a run.")
table_app = typer.Typer(no_args_is_help=True, help="Read a reference table of a run again.")
_WAIT = 30  # seconds that a change is waited for, unless --wait says otherwise
_POLL = 1.0  # seconds between two looks at results that are followed

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the query.")]
_Sql = Annotated[str | None, typer.Argument(metavar="SQL", help="Its text; or use --file.", show_default=False)]
_File = Annotated[Path | None, typer.Option("--file", "-f", metavar="FILE", help="A file with its text.", show_default=False)]
_Sink = Annotated[
    str | None,
    typer.Option(
        metavar="SINK", help="Where results go, as in a job file: '{parquet: out/paid}'. Else under the checkpoint.", show_default=False
    ),
]
_Window = Annotated[list[str] | None, typer.Option(metavar="STREAM=DURATION", help="Another window than the stream's.", show_default=False)]
_Mode = Annotated[str | None, typer.Option(metavar="MODE", help="Of aggregates: complete, update or append.", show_default=False)]
_Replaces = Annotated[str | None, typer.Option(metavar="NAME", help="The query whose place it would take.", show_default=False)]
_History = Annotated[bool, typer.Option("--history/--no-history", metavar="", help="Whether stored rows are joined, too.")]
_Wait = Annotated[int, typer.Option(min=0, max=60, metavar="SECONDS", help="How long to wait until the change is in effect.")]


def status(job: Target = DEFAULT, token_file: TokenFile = None, as_json: Json = False) -> None:
    """Show whether a run is active, its last batch, and totals since its start."""
    found = connect(job, token_file).get("/api/status")
    if as_json:
        return _print(found)
    from clash.spark.progress_text import progress_text

    typer.echo("active" if found["active"] else "ended" if found["error"] is None else f"failed: {found['error']['what']}")
    typer.echo(progress_text(found["progress"]))
    return None


def queries(job: Target = DEFAULT, token_file: TokenFile = None, as_json: Json = False) -> None:
    """List the live queries of a run."""
    found = connect(job, token_file).get("/api/queries")
    if as_json:
        return _print(found)
    rows = [
        [
            query["name"],
            f"{query['results']:,}",
            "-" if query["complete_from"] is None else str(query["complete_from"]),
            " ".join(query["sql"].split()),
        ]
        for query in found
    ]
    _table(["query", "results", "complete from", "sql"], rows)
    return None


@query_app.command("add", epilog="""For example: clash query add refunds "SELECT … FROM orders JOIN refunds USING (order_id)" """)
def add(
    name: _Name, sql: _Sql = None, file: _File = None, sink: _Sink = None, window: _Window = None, mode: _Mode = None,
    history: _History = True, wait: _Wait = _WAIT, job: Target = DEFAULT, token_file: TokenFile = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Add a query to a run, from its next epoch boundary on."""
    body = {"name": name, **_body(sql, file, sink, window, mode, history)}
    _show_change(connect(job, token_file).send("POST", f"/api/queries?wait={wait}", body), as_json)


@query_app.command("replace")
def replace(
    name: _Name, sql: _Sql = None, file: _File = None, sink: _Sink = None, window: _Window = None, mode: _Mode = None,
    history: _History = True, wait: _Wait = _WAIT, job: Target = DEFAULT, token_file: TokenFile = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Replace a query by another of its name: the last batch of the one is followed by the first of the other."""
    from clash.cli.client import escape

    body = _body(sql, file, sink, window, mode, history)
    _show_change(connect(job, token_file).send("PUT", f"/api/queries/{escape(name)}?wait={wait}", body), as_json)


@query_app.command("remove")
def remove(name: _Name, wait: _Wait = _WAIT, job: Target = DEFAULT, token_file: TokenFile = None, as_json: Json = False) -> None:
    """Remove a query from a run. Its results stay where they are."""
    from clash.cli.client import escape

    _show_change(connect(job, token_file).send("DELETE", f"/api/queries/{escape(name)}?wait={wait}"), as_json)


@table_app.command("refresh", epilog="For example: clash table refresh customers")
def refresh(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the table.")],
    wait: _Wait = _WAIT, job: Target = DEFAULT, token_file: TokenFile = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Read a table of a run again. Rows that come from then on join what was read; results that were given stay."""
    from clash.cli.client import escape

    _show_change(connect(job, token_file).send("POST", f"/api/tables/{escape(name)}/refresh?wait={wait}"), as_json)


def rescale(
    workers: Annotated[int, typer.Argument(min=1, max=1024, metavar="WORKERS", help="The number of workers.")],
    wait: _Wait = _WAIT, job: Target = DEFAULT, token_file: TokenFile = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Give a run another number of workers. Nothing is moved."""
    _show_change(connect(job, token_file).send("POST", f"/api/workers?wait={wait}", {"workers": workers}), as_json)


def generations(job: Target = DEFAULT, token_file: TokenFile = None, as_json: Json = False) -> None:
    """List every plan of a run so far: when and why it began, what it was expected to cost and what it did."""
    found = connect(job, token_file).get("/api/generations")
    if as_json:
        return _print(found)
    keys = list(dict.fromkeys(key for generation in found for key, value in generation.items() if not isinstance(value, dict | list)))
    _table(keys, [[_cell(generation.get(key)) for key in keys] for generation in found])
    return None


def what_if(
    sql: _Sql = None, file: _File = None, window: _Window = None, mode: _Mode = None, replaces: _Replaces = None,
    job: Target = DEFAULT, token_file: TokenFile = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Show what one more query would cost a run, what it would share, what would have to be stored, and when it would be complete."""
    body = {"sql": _text(sql, file), "windows": _windows(window), "mode": mode, "replaces": replaces}
    found = connect(job, token_file).send("POST", "/api/what-if", body)
    if as_json:
        return _print(found)
    typer.echo(f"adds {found['marginal']:,.0f} to the plan's {found['cost']:,.0f}; alone it would cost {found['alone']:,.0f}")
    if replaces is not None:
        typer.echo(f"query {replaces}, which it would replace, adds {found['saved']:,.0f} now")
    shared = sum(1 for step in found["steps"] if step["shared_with"])
    typer.echo(f"{shared} of its {len(found['steps'])} probe steps are shared with running queries")
    rows = [
        [
            store["name"], "new" if store["is_new"] else "stored already", f"{store['rows']:,.0f}", ", ".join(store["new_columns"]) or "-",
            ", ".join(store["shared_with"]) or "-",
        ]
        for store in found["stores"]
    ]  # fmt: skip
    _table(["store", "", "rows (estimated)", "new columns", "shared with"], rows)
    if found["completeness"]["is_complete"]:
        typer.echo("complete from its first batch on")
    else:
        needed = found["completeness"]["needed_watermarks"]
        late = [f"that of {stream} has passed {when}" for stream, when in needed.items() if when is not None]
        unknown = [f"stream {stream} has no watermark, or the window is unbounded" for stream, when in needed.items() if when is None]
        typer.echo("not complete until the watermarks are there: " + "; ".join([*late, *unknown]))
    return None


def results(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The name of the query.")],
    last: Annotated[int, typer.Option("--last", "-n", min=1, max=1000, metavar="N", help="So many, the newest.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", metavar="", help="Go on with what comes, until Ctrl-C.")] = False,
    job: Target = DEFAULT, token_file: TokenFile = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Print the last results of a query; with --json, one object per line."""
    from clash.cli.client import escape

    client, path = connect(job, token_file), f"/api/results/{escape(query)}"
    found = client.get(f"{path}?last={last}")
    _show_rows(found, as_json, heading=True)
    try:
        while follow:
            time.sleep(_POLL)
            found = client.get(f"{path}?last=1000&after={found['batch']}")
            _show_rows(found, as_json, heading=False)
            if found["has_more"]:
                typer.echo("… more results came than are shown", err=True)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


# ---- what is sent ---------------------------------------------------------------------------------------------------


def _body(
    sql: str | None, file: Path | None, sink: str | None, window: list[str] | None, mode: str | None, history: bool
) -> dict[str, Any]:
    return {"sql": _text(sql, file), "sink": _sink(sink), "windows": _windows(window), "mode": mode, "history": history}


def _text(sql: str | None, file: Path | None) -> str:
    if (sql is None) == (file is None):
        raise OptionError("a query has one text", "SQL and --file" if sql is not None else "neither SQL nor --file", "give one of them")
    if file is None:
        return str(sql)
    try:
        return file.read_text(encoding="utf-8").strip().removesuffix(";")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError("the file of the query cannot be read", f"{file}: {error}", "name a file with SQL") from None


def _sink(text: str | None) -> Any:
    if text is None:
        return None
    from clash.job.yaml_text import parse_yaml

    data = parse_yaml(text, "--sink").data
    return {data: {}} if isinstance(data, str) else data


def _windows(given: list[str] | None) -> dict[str, str] | None:
    if not given:
        return None
    pairs = [text.partition("=") for text in given]
    for stream, equals, window in pairs:
        if not (stream and equals and window):
            raise OptionError("a value that --window does not take", repr(stream), "write --window 'orders=5 minutes'")
    return {stream: window for stream, _, window in pairs}


# ---- what is shown --------------------------------------------------------------------------------------------------


def _print(data: Any) -> None:
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False))


def _show_change(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return _print(found)
    when = (
        "waits for new rows, which bring the next batch and the next epoch boundary"
        if found["batch"] is None
        else f"in effect from batch {found['batch']} on"
    )
    typer.echo(f"{found['change']}: {when}")
    return None


def _show_rows(found: dict[str, Any], as_json: bool, heading: bool) -> None:
    names = [column["name"] for column in found["columns"]]
    if as_json:
        for row in found["rows"]:
            typer.echo(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False))
    elif heading or found["rows"]:
        _table(names if heading else [], [[_cell(value) for value in row] for row in found["rows"]])


def _cell(value: Any) -> str:
    """On one line, and without characters that a terminal obeys."""
    text = (
        "NULL" if value is None else value if isinstance(value, str) else f"{value:,.6g}" if isinstance(value, float) else json.dumps(value)
    )
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _table(head: list[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=bool(head))
    for name in head or (rows[0] if rows else []):
        table.add_column(Text(_cell(name)), overflow="fold", no_wrap=False)
    for row in rows:
        table.add_row(*(Text(_cell(cell)) for cell in row))
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 10_000  # a line per row, for other programs
    console.print(table)
