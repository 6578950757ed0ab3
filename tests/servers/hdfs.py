"""HDFS."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import ClassVar

import pytest

from .programs import free_port, get


class HdfsServer:
    """A NameNode and a DataNode over a folder, in one process, which ends with this one. It may be stopped and started again."""

    spark_settings: ClassVar[dict[str, str]] = {  # impatient, when the server is stopped
        "spark.hadoop.ipc.client.connect.max.retries": "1",
        "spark.hadoop.ipc.client.connect.retry.interval": "200",
    }

    def __init__(self, folder: Path) -> None:
        pytest.importorskip("hdfs_native", reason="pip install hdfs-native")
        import pyspark

        server = next(get("jars").glob("*minicluster*.jar"))
        self._folder = folder
        self._classes = f"{folder}:{server}:{Path(pyspark.__file__).parent}/jars/*"
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"hdfs://127.0.0.1:{free_port()}"
        settings = {
            "fs.defaultFS": self.address,
            "dfs.namenode.name.dir": f"{folder}/name",
            "dfs.datanode.data.dir": f"{folder}/data",
            "dfs.replication": "1",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.namenode.safemode.extension": "0",
        }
        for name in ("namenode.http-address", "datanode.address", "datanode.http.address", "datanode.ipc.address"):
            settings[f"dfs.{name}"] = f"127.0.0.1:{free_port()}"
        entries = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
        for file in ("core-site.xml", "hdfs-site.xml"):
            (folder / file).write_text(f"<configuration>{entries}</configuration>")
        for name in ("hdfs", "datanode"):  # empty pages: those in the jar are unpacked at each start, which takes seconds
            (folder / "webapps" / name).mkdir(parents=True)

    def location(self, name: str) -> str:
        return f"{self.address}/{name}"

    def start(self) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway

        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else "java"
        java_options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", self._classes]
        command = [java, *java_options, "py4j.GatewayServer", "--die-on-broken-pipe", "0"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
        assert self._process.stdout is not None
        # without its memory management, which waits for a process that is stopped
        options = GatewayParameters(port=int(self._process.stdout.readline()), enable_memory_management=False)
        gateway = JavaGateway(gateway_parameters=options)
        hadoop = gateway.jvm.org.apache.hadoop
        hadoop.metrics2.lib.DefaultMetricsSystem.setMiniClusterMode(True)  # several servers in one process
        configuration, nothing = hadoop.hdfs.HdfsConfiguration(), gateway.new_array(gateway.jvm.String, 0)
        if not (self._folder / "name").exists():
            hadoop.hdfs.server.namenode.NameNode.format(configuration)
        hadoop.hdfs.server.namenode.NameNode.createNameNode(nothing, configuration)
        hadoop.hdfs.server.datanode.DataNode.createDataNode(nothing, configuration)
        gateway.close()
        self._wait()

    def _wait(self) -> None:
        """Until a file can be written: the DataNode reports its blocks."""
        import hdfs_native

        problem: Exception | None = None
        for _ in range(600):
            try:
                with hdfs_native.Client(self.address).create("/ready", hdfs_native.WriteOptions(overwrite=True)) as writer:
                    writer.write(b"yes")
                return
            except (OSError, RuntimeError) as error:
                problem = error
                time.sleep(0.1)
        raise AssertionError(f"HDFS does not start: {problem}; {(self._folder / 'log').read_text()[-3000:]}")

    def free_lock(self, name: str) -> None:
        """Take a file from the run that had it open, as `hdfs debug recoverLease` does, instead of a minute later."""
        import hdfs_native

        client = hdfs_native.Client(self.address)
        while not client.recover_lease(f"/{name}"):
            time.sleep(0.2)

    def send(self, sig: signal.Signals) -> None:
        """SIGSTOP: it takes connections and does not answer, until SIGCONT."""
        assert self._process is not None
        self._process.send_signal(sig)

    def stop(self) -> None:
        if self._process is not None:
            with self._process as process:
                process.kill()
            self._process = None
