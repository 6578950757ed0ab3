"""PostgreSQL."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from .programs import free_port, get


class PostgresServer:
    """PostgreSQL over a folder of its own, which it must own: as root it runs as another user. It may be killed and started again."""

    def __init__(self) -> None:
        pytest.importorskip("psycopg", reason="pip install psycopg[binary]")
        self._programs = get("postgres")
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="clash-postgres-"))
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            shutil.chown(self._folder, "nobody")
            self._user = {"user": "nobody"}
            if any(not folder.stat().st_mode & 0o001 for folder in self._programs.parents):
                pytest.skip(f"PostgreSQL does not run as root, and other users cannot read {self._programs}")
        self.port = free_port()
        self.dsn = f"host=127.0.0.1 port={self.port} dbname=postgres user=clash"

    def start(self) -> None:
        data = self._folder / "data"
        settings = {"cwd": self._folder, "env": {**os.environ, "LC_ALL": "C"}, **self._user}
        if not data.exists():
            command = [self._programs / "initdb", "-D", data, "-A", "trust", "-U", "clash", "--no-sync", "-E", "UTF8"]
            subprocess.run(command, check=True, capture_output=True, **settings)
        listening = ["-h", "127.0.0.1", "-p", str(self.port), "-k", str(self._folder)]
        with (self._folder / "log").open("ab") as log:
            command = [self._programs / "postgres", "-D", data, *listening]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **settings)
        for _ in range(600):
            try:
                self.query("SELECT 1")
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"PostgreSQL does not start: {(self._folder / 'log').read_text()[-3000:]}")

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """What a statement gives; OSError if the server does not answer."""
        import psycopg

        try:
            with psycopg.connect(self.dsn, autocommit=True, connect_timeout=10) as connection:
                found = connection.execute(text)  # type: ignore[arg-type]
                return [] if found.description is None else found.fetchall()
        except psycopg.OperationalError as error:
            raise OSError(str(error)) from error

    def kill(self) -> None:
        """All processes at once, as when the machine fails."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            (self._folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder)
