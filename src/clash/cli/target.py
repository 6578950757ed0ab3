"""Which run a command means: a job file, a checkpoint, or an address."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clash.errors import OptionError

if TYPE_CHECKING:
    from clash.cli.client import Client

DEFAULT = "job.yaml"
Target = Annotated[
    str,
    typer.Option(
        "--job",
        "-j",
        metavar="RUN",
        envvar="CLASH_JOB",
        help="The run: its job file, its checkpoint folder, or its address http://HOST:PORT.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="The token of the run, for an address; else CLASH_TOKEN.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON, for programs.")]


def connect(target: str, token_file: Path | None) -> Client:
    """A client of the run."""
    from clash.cli.client import Client
    from clash.job.load import is_job_file, load_job
    from clash.server.connection import find_connection

    if target.startswith(("http://", "https://")):
        address, _, query = target.partition("?")
        token = read_token(token_file) or os.environ.get("CLASH_TOKEN") or query.removeprefix("token=")
        if not token:
            raise OptionError("an address needs the token of its run", address, "give --token-file FILE, or set CLASH_TOKEN")
        return Client(address, token)
    path = Path(target).expanduser()
    if is_job_file(path):
        file = load_job(path)
        with file.at("checkpoint"):
            connection = find_connection(file.checkpoint)
    elif path.is_dir() or ":/" in target:
        connection = find_connection(target if ":/" in target else str(path.absolute()))
    else:
        raise OptionError(
            "neither a job file, a checkpoint nor an address",
            repr(target),
            "write --job job.yaml, --job CHECKPOINT or --job http://HOST:PORT",
        )
    return Client(connection.address, connection.token)


def read_token(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        token = file.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not text"
        raise OptionError("the file of the token cannot be read", f"{file}: {reason}", "write the token into a file of its own") from None
    if not token or any(character.isspace() or not character.isascii() for character in token):
        raise OptionError("not a token", f"{file}", "write one line of ASCII characters, such as of `openssl rand -hex 24`")
    return token
