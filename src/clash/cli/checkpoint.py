"""`clash checkpoint`: what operators do with a checkpoint from outside of a run; needs no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from clash.operations.rollback import LaterResults

app = typer.Typer(no_args_is_help=True, help="Work on the checkpoint of a job from outside: remove results that it does not know.")

_Checkpoint = Annotated[str, typer.Argument(metavar="CHECKPOINT", help="The folder that the program gives as its checkpoint.")]


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
    from clash.operations.opened_checkpoint import absolute_location, locked_checkpoint
    from clash.operations.rollback import find_later_results, remove_later_results

    with locked_checkpoint(checkpoint) as opened:
        opened.verify()
        found = find_later_results(opened, map(absolute_location, results or ()))
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
