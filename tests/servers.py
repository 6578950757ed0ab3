"""Real servers on loopback for tests of remote storages: an object store, and HDFS. `scripts/test_servers.py` gets them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import ClassVar

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "test_servers.py"
KEY, SECRET, REGION = "clash-tests", "clash-tests-secret", "us-east-1"


def get(what: str) -> Path:
    """The place of a server's files; the test is skipped, with the reason, where they cannot be had."""
    found = subprocess.run([sys.executable, SCRIPT, what], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"no {what} from the package registries: {' '.join(found.stderr.split())[-300:]}")
    return Path(found.stdout.strip())


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


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

    def stop(self, sig: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(sig)
            self._process.wait()
            self._process = None


class HdfsServer:
    """A NameNode and a DataNode over a folder, each a process of its own. They may be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        pytest.importorskip("hdfs_native", reason="pip install hdfs-native")
        import pyspark

        server = next(get("jars").glob("*minicluster*.jar"))
        self._folder = folder
        self._classes = f"{folder}:{server}:{Path(pyspark.__file__).parent}/jars/*"
        self._processes: list[subprocess.Popen[bytes]] = []
        self.port = free_port()
        settings = {
            "fs.defaultFS": f"hdfs://127.0.0.1:{self.port}",
            "dfs.namenode.name.dir": f"{folder}/name",
            "dfs.datanode.data.dir": f"{folder}/data",
            "dfs.replication": "1",
            "dfs.namenode.rpc-address": f"127.0.0.1:{self.port}",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.namenode.safemode.extension": "0",
        }
        for name in ("namenode.http-address", "datanode.address", "datanode.http.address", "datanode.ipc.address"):
            settings[f"dfs.{name}"] = f"127.0.0.1:{free_port()}"
        entries = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
        for file in ("core-site.xml", "hdfs-site.xml"):
            (folder / file).write_text(f"<configuration>{entries}</configuration>")
        self._run("namenode.NameNode", "-format", "-nonInteractive", "-force").wait()

    def location(self, name: str) -> str:
        return f"hdfs://127.0.0.1:{self.port}/{name}"

    spark_settings: ClassVar[dict[str, str]] = {}

    def start(self) -> None:
        self._processes = [self._run("namenode.NameNode"), self._run("datanode.DataNode")]
        import hdfs_native

        problem: Exception | None = None
        for _ in range(240):
            try:
                client = hdfs_native.Client(f"hdfs://127.0.0.1:{self.port}")
                with client.create("/ready", hdfs_native.WriteOptions(overwrite=True)) as writer:
                    writer.write(b"yes")
                return
            except (OSError, RuntimeError) as error:
                problem = error
                time.sleep(0.5)
        raise AssertionError(f"HDFS does not start: {problem}; {(self._folder / 'log').read_text()[-3000:]}")

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes = []

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else "java"
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", self._classes]
        with (self._folder / "log").open("ab") as log:
            command = [java, *options, f"org.apache.hadoop.hdfs.server.{program}", *arguments]
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, cwd=self._folder)
