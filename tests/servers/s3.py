"""An object store."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from .programs import free_port, get

KEY, SECRET, REGION = "clash-tests", "clash-tests-secret", "us-east-1"


class S3Server:
    """versitygw over a folder. It may be stopped and started again: what was acknowledged is there again."""

    def __init__(self, folder: Path) -> None:
        self._program = get("s3")
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        for name in ("data", "meta"):
            (folder / name).mkdir()
        (folder / "data" / "bucket").mkdir()

    def location(self, name: str) -> str:
        """A folder, as Spark and the engine write it."""
        return f"s3a://bucket/{name}"

    @property
    def environment(self) -> dict[str, str]:
        """For Arrow and for our own requests."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def spark_settings(self) -> dict[str, str]:
        """For s3a:// in Spark."""
        where = {"endpoint": self.endpoint, "endpoint.region": REGION, "path.style.access": "true"}
        impatient = {"attempts.maximum": "1", "retry.limit": "1", "retry.interval": "100ms"}  # when the server is stopped
        options = {**where, **impatient, "access.key": KEY, "secret.key": SECRET}
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in options.items()}

    def start(self) -> None:
        command = [self._program, "--quiet", "--port", f"127.0.0.1:{self.port}", "--health", "/health", "--region", REGION]
        backend = ["posix", "--sidecar", self._folder / "meta", self._folder / "data"]
        environment = {**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen([*command, *backend], env=environment, stdout=log, stderr=log, start_new_session=True)
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{self.endpoint}/health", timeout=1).close()
                return
            except (OSError, urllib.error.URLError):
                time.sleep(0.1)
        raise AssertionError(f"versitygw does not start: {(self._folder / 'log').read_text()}")

    def free_lock(self, name: str) -> None:
        """Nothing to do: the lock of a killed run of this machine is known to be free."""

    def stop(self, sig: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(sig)
            self._process.wait()
            self._process = None
