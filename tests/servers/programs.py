"""Where the programs of the servers are, and ports for them."""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "test_servers.py"


def get(what: str) -> Path:
    """The place of a server's files; the test is skipped, with the reason, where they cannot be had."""
    found = subprocess.run([sys.executable, SCRIPT, what], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"no {what} from the package registries: {' '.join(found.stderr.split())[-300:]}")
    return Path(found.stdout.strip())


def find(what: str) -> Path | None:
    """As `get`; None where it cannot be had."""
    found = subprocess.run([sys.executable, SCRIPT, what], capture_output=True, text=True, check=False)
    return None if found.returncode else Path(found.stdout.strip())


def free_port() -> int:
    """A port that the system gives to no connection: otherwise a client that tries again while its server is stopped may take it."""
    while True:
        port = random.SystemRandom().randrange(15_000, 30_000)
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port
