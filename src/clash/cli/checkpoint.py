"""`clash checkpoint`: what operators do with a checkpoint from outside of a run; needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clash import __version__
from clash.cli.report import show_error
from clash.errors import ClashError, OptionError

if TYPE_CHECKING:
    from clash.operations.restored_folder import FolderPlan
    from clash.operations.rollback import LaterResults

FAULT = 1  # the exit code of `verify` for a fault that it finds

app = typer.Typer(no_args_is_help=True, help="Back up, verify and restore the checkpoint of a job with its results; remove later results.")

_Checkpoint = Annotated[str, typer.Argument(metavar="CHECKPOINT", help="The folder that the program gives as its checkpoint.")]


@app.command(epilog="For example: `clash checkpoint backup /data/checkpoints/shop /backups/shop`")
def backup(
    checkpoint: _Checkpoint,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of backups, for one job or several; on another disk at best.")],
) -> None:
    """Take a snapshot of a job that runs or not: its state after one batch, with all results up to that batch.

    The job is not disturbed. Files that the last snapshot in DIR has are not copied again, but linked to it."""
    from clash.explain.wording import bytes_text
    from clash.operations.backup import take_backup

    snapshot, copied = take_backup(checkpoint, folder, __version__)
    typer.echo(f"batch {snapshot.record.batch} of {snapshot.record.checkpoint}")
    typer.echo(
        f"  copied {copied.files} files, {bytes_text(copied.bytes)}; linked {copied.linked_files} files, {bytes_text(copied.linked_bytes)}"
    )
    typer.echo(f"  {snapshot.path}")


@app.command()
def verify(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A checkpoint, a snapshot, or a folder of snapshots.")],
) -> None:
    """Check every checksum, and that a start would accept what is there; nothing is changed, and the job may run.

    The exit code is 1 if a fault is found; its file is named."""
    from clash.explain.wording import bytes_text
    from clash.operations.opened_checkpoint import open_checkpoint
    from clash.operations.verify import find, verify_checkpoint, verify_snapshot

    found = find(path)
    if not found:
        open_checkpoint(path)  # a path that is neither is a mistake of the user's, not a fault
    try:
        for verified in map(verify_snapshot, found) if found else [verify_checkpoint(path)]:
            kind = "backup" if verified.is_backup else "checkpoint"
            state = f"{verified.containers} containers, {bytes_text(verified.bytes)}; {verified.results} files of results and late rows"
            typer.echo(f"{kind} {verified.location}: whole, batch {verified.batch}; {state}")
    except ClashError as error:
        show_error(error)
        raise typer.Exit(FAULT) from None


@app.command(epilog="For example: `clash checkpoint restore /backups/shop/000000120-20261117T231650.000Z`")
def restore(
    snapshot: Annotated[Path, typer.Argument(metavar="SNAPSHOT", help="A snapshot that `backup` has taken.")],
    to: Annotated[
        Path | None, typer.Option(metavar="CHECKPOINT", help="Another place for the checkpoint than it had.", show_default=False)
    ] = None,
    results: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUERY=FOLDER",
            help="Another place for the results of a query with a Parquet sink; may be repeated.",
            show_default=False,
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", metavar="", help="Move aside what is in the places now.")] = False,
) -> None:
    """Put a snapshot back: the checkpoint, and its result folders as they were with it. Nothing is deleted."""
    from clash.operations.backup_record import read_snapshot
    from clash.operations.restore import restore as put_back

    restored = put_back(read_snapshot(snapshot.expanduser().absolute()), to, _folders(results or ()), replace)
    if restored.aside is not None:
        typer.echo(f"moved the checkpoint that was there to {restored.aside}")
    for plan in restored.folders:
        _show_folder(plan)
    typer.echo(f"restored {restored.checkpoint}: batch {restored.batch} is the last; start the program, and it goes on from there")


@app.command()
def rollback(
    checkpoint: _Checkpoint,
    results: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FOLDER", help="A further folder with results, of a query that the checkpoint does not know.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", metavar="", help="Show what would be removed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do not ask.")] = False,
) -> None:
    """Remove the results of batches after the last one that the checkpoint has, so that it can write them again."""
    from clash.operations.opened_checkpoint import locked_checkpoint
    from clash.operations.rollback import find_later_results, remove_later_results

    with locked_checkpoint(checkpoint) as opened:
        opened.verify()
        found = find_later_results(opened, results or ())
        last = opened.manifest.batch
        typer.echo(f"{opened.location}: " + (f"batch {last} is the last" if last >= 0 else "no batch is committed"))
        if not found:
            typer.echo("there are no results of later batches")
            return
        _show_later(found)
        if dry_run:
            return
        if not yes:
            typer.confirm("remove them?", abort=True)
        typer.echo(f"removed {remove_later_results(found)} files")


def _show_later(found: list[LaterResults]) -> None:
    for later in found:
        first, last = later.batches
        batches = f"batch {first}" if first == last else f"batches {first} to {last}"
        typer.echo(f"  {later.folder.whose}, {later.folder.shown}: {len(later.paths)} files of {batches}")


def _folders(given: Iterable[str]) -> dict[str, Path]:
    folders = {}
    for text in given:
        query, equals, folder = text.partition("=")
        if not (query and equals and folder):
            raise OptionError("a value that --results does not take", repr(text), "write --results QUERY=FOLDER")
        folders[query] = Path(folder)
    return folders


def _show_folder(plan: FolderPlan) -> None:
    moved = f", moved {len(plan.extra)} files to {plan.aside}" if plan.extra else ""
    typer.echo(f"query {plan.stored.query}, {plan.place}: put back {len(plan.missing)} files{moved}")
    if str(plan.place) != plan.stored.location:
        typer.echo(f'  it was {plan.stored.location}: the program has to say sink=clash.sinks.Parquet("{plan.place}")')
