"""`clash run`: runs a job file until it is stopped, with a live view and a page."""

from __future__ import annotations

import json
import logging
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from clash.cli.report import show_error
from clash.cli.target import Json, read_token
from clash.errors import ClashError, OptionError

if TYPE_CHECKING:
    from rich.console import Console

    from clash.job.load import JobFile

FAILED = 1  # the exit code of a run that failed
_REFRESH = 0.5  # seconds between two updates of the live view
_LINE_INTERVAL = 10.0  # seconds between two lines where there is no terminal

JobArgument = Annotated[Path, typer.Argument(metavar="JOB", help="A job file, job.yaml.")]
Master = Annotated[
    str | None, typer.Option(metavar="MASTER", help="Spark's master, instead of the file's: local[4], spark://…", show_default=False)
]
EXIT_CODES = "Exit codes: 0 the job ended or was stopped, 1 it failed, 2 the file or an option is wrong, 130 Ctrl-C, 143 SIGTERM."


def run(
    job: JobArgument = Path("job.yaml"),
    once: Annotated[bool, typer.Option("--once", metavar="", help="End when what the sources have now is read.")] = False,
    ui: Annotated[
        str | None,
        typer.Option(
            "--ui", metavar="HOST:PORT", help="Where the page listens; else on 127.0.0.1:4242 or the next free port.", show_default=False
        ),
    ] = None,
    no_ui: Annotated[bool, typer.Option("--no-ui", metavar="", help="No page, no control API, no metrics.")] = False,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="The token of the page, instead of a new one.", show_default=False)
    ] = None,
    ui_name: Annotated[
        list[str] | None,
        typer.Option("--ui-name", metavar="NAME", help="A further name of the host that serves the page.", show_default=False),
    ] = None,
    ui_any_sink: Annotated[
        bool, typer.Option("--ui-any-sink", metavar="", help="Let requests name any sink, as the job file may; see the control API.")
    ] = False,
    master: Master = None,
    log_format: Annotated[
        Literal["text", "json"], typer.Option("--log-format", help="How the log is written, to standard error.")
    ] = "text",
    as_json: Json = False,
) -> None:
    """Run a job until it ends or Ctrl-C: a batch in work is dropped then, and the next start runs it again.

    Started again with an edited file, it goes on with what has changed; `clash diff` shows that before."""
    from clash.job.declared import declare
    from clash.job.load import load_job

    if no_ui and (ui is not None or token_file is not None or ui_name or ui_any_sink):
        raise OptionError(
            "--no-ui excludes the options of the page", "--ui, --token-file, --ui-name or --ui-any-sink", "leave one of them out"
        )
    file = load_job(job)
    declared = declare(file)
    token = read_token(token_file)
    if ui is not None:
        from clash.server.serve import check_address

        check_address(ui, token)

    from rich.console import Console

    from clash.cli.logs import LogPosition, configure_logging
    from clash.job.build import build_engine, open_session
    from clash.spark.signals import ProgramInterrupt, stop_on_signal

    console = Console(highlight=False, stderr=as_json)
    position = LogPosition(file.job.name)
    configure_logging(log_format, position, file.variables.hide)
    log = _spark_log(file)
    with ExitStack() as stack:
        if console.is_terminal:
            with console.status("starting Spark"):
                spark = stack.enter_context(open_session(file, master, log))
        else:
            spark = stack.enter_context(open_session(file, master, log))
        engine = build_engine(file, spark, declared)
        try:
            started = engine.start(available_now=once, trigger=None if once else file.job.engine.trigger)
        except ClashError as error:
            raise file.located(error) from None
        position.run = started
        server = None
        if not no_ui:
            with file.at("checkpoint"):
                server = _serve(file, started, ui, token, tuple(ui_name or ()), ui_any_sink)
            stack.callback(server.stop)
        # a token of the user's is not shown
        url = None if server is None else server.url if token is None else server.address
        stack.callback(started.stop)
        try:
            with stop_on_signal(started.stop):
                _watch(console, file.job.name, url, started, as_json)
        except (ProgramInterrupt, SystemExit) as end:
            _say_stopped(console, started)
            raise typer.Exit(int(str(end.args[0])) if end.args else FAILED) from None
        except ClashError as error:
            if log_format == "json":
                logging.getLogger("clash").error("the run has failed: %s", error)
            else:
                show_error(file.hidden(error))
            console.print(file.variables.hide(f"Spark's log: {log}"), style="dim", markup=False, soft_wrap=True)
            raise typer.Exit(FAILED) from None
        _say_stopped(console, started)


def _serve(file: JobFile, run: Any, address: str | None, token: str | None, names: tuple[str, ...], any_sink: bool) -> Any:
    from clash.server.context import JobContext
    from clash.server.serve import serve

    job = file.job
    context = JobContext(job.name, run.checkpoint, file.folder, job.kafka, job.postgres, any_sink, file.variables.hide)
    try:
        return serve(run, address, token, names, context)
    except BaseException:
        run.stop()
        raise


def _spark_log(file: JobFile) -> Path:
    """Beside the checkpoint's halves, or in a temporary folder where the checkpoint is elsewhere."""
    from clash.server.connection import local_folder

    folder = local_folder(file.checkpoint)
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix=f"clash-{file.job.name}-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        with file.at("checkpoint"):
            raise OptionError("the checkpoint cannot be written", f"{folder}: {error.strerror}", "choose a folder of yours") from None
    return folder / "spark.log"


def _watch(console: Console, name: str, url: str | None, run: Any, as_json: bool) -> None:
    """Shows what the run does until it ends; raises what it failed with."""
    from rich.live import Live

    from clash.cli.live_view import live_view

    began = time.monotonic()
    if url is not None:
        console.print(f"{name}: {url}", soft_wrap=True, markup=False)
    if as_json:
        return _print_batches(run)
    if not console.is_terminal:
        return _print_lines(console, run)
    with Live(console=console, refresh_per_second=2, transient=False) as live:
        ended = False
        while not ended:
            ended = run.await_termination(_REFRESH)
            live.update(live_view(name, url, run.progress, run.queries, time.monotonic() - began))
    return None


def _print_batches(run: Any) -> None:
    """One JSON object per committed batch."""
    last, ended = -1, False
    while not ended:
        ended = run.await_termination(_REFRESH)
        for batch in run.recent_progress:
            if batch["batch"] > last:
                last = batch["batch"]
                typer.echo(json.dumps(batch, ensure_ascii=False))


def _print_lines(console: Console, run: Any) -> None:
    """One line from time to time: for logs of a service, and for tests."""
    while not run.await_termination(_LINE_INTERVAL):
        console.print(_line(run.progress), soft_wrap=True, markup=False)


def _line(progress: Any) -> str:
    totals = progress["totals"]
    rows, results = sum(totals["input"].values()), sum(totals["results"].values()) + totals["other_results"]
    late = sum(totals["late"].values())
    return f"batch {progress['batch']}: {rows:,} rows, {results:,} results, {late:,} late since the start"


def _say_stopped(console: Console, run: Any) -> None:
    progress = run.progress
    for query, count in progress["totals"]["results"].items():
        console.print(f"  {query}: {count:,} results", soft_wrap=True, markup=False)
    console.print(f"ended; {_line(progress)}", soft_wrap=True, markup=False)
