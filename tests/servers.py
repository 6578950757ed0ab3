"""Real servers on loopback for tests: an object store, HDFS, Kafka, and PostgreSQL. `scripts/test_servers.py` gets them."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "test_servers.py"
KEY, SECRET, REGION = "clash-tests", "clash-tests-secret", "us-east-1"


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


class KafkaServer:
    """A Kafka broker that is its own controller, over a folder. It may be stopped or killed and started again: its data stay.
    Topics are made by `create` alone."""

    def __init__(self, folder: Path, session: float = 6) -> None:
        """`session`: seconds after which a broker that was killed counts as gone, and may register again. A session that is too short ends
        while the machine is busy: the broker then leads no partition, and the producers of a transaction get "not coordinator"."""
        pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")
        import pyspark

        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else "java"
        options = ["-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        scala = next((Path(pyspark.__file__).parent / "jars").glob("scala-library*.jar"))
        self._java = [str(java), *options, "-cp", f"{get('kafka')}/*:{scala}"]
        self._folder = folder
        self._settings = folder / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        self.servers = f"127.0.0.1:{free_port()}"
        controller = f"127.0.0.1:{free_port()}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": f"{folder}/data",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
            "group.initial.rebalance.delay.ms": "0",
            "broker.session.timeout.ms": str(round(1000 * session)),
            "broker.heartbeat.interval.ms": "500",
            "auto.create.topics.enable": "false",
            "log.retention.ms": "-1",  # records with times of long ago stay; a topic may have a `retention.ms` of its own,
            "log.retention.check.interval.ms": "1000",  # and tests of it do not wait for minutes
            "log.segment.delete.delay.ms": "500",
            "log.initial.task.delay.ms": "1000",
        }
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def start(self) -> None:
        """Returns when it answers."""
        if not (self._folder / "data").exists():
            format_storage = [*self._java, "kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c", str(self._settings)]
            subprocess.run(format_storage, check=True, capture_output=True)
        with (self._folder / "log").open("ab") as log:
            command = [*self._java, "kafka.Kafka", str(self._settings)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        host, _, port = self.servers.partition(":")
        for _ in range(600):
            try:
                socket.create_connection((host, int(port)), 1).close()
                break
            except OSError:
                assert self._process.poll() is None, f"Kafka does not start: {(self._folder / 'log').read_text()[-3000:]}"
                time.sleep(0.1)
        self.admin().list_topics(timeout=60)

    def send(self, sig: signal.Signals) -> None:
        """SIGSTOP: it takes connections and does not answer, until SIGCONT."""
        assert self._process is not None
        self._process.send_signal(sig)

    def stop(self, sig: signal.Signals = signal.SIGTERM) -> None:
        """Returns when the process has ended."""
        if self._process is not None:
            self._process.send_signal(sig)
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers})

    def create(self, *topics: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        from confluent_kafka.admin import NewTopic

        new = [NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(config or {})) for topic in topics]
        admin = self.admin()  # kept: what it is asked for ends with it
        for created in admin.create_topics(new).values():
            created.result(60)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """So many in all."""
        from confluent_kafka.admin import NewPartitions

        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(60)

    def delete(self, topic: str) -> None:
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(60)

    def produce(self, topic: str, values: Iterable[bytes | str | dict[str, Any] | None]) -> None:
        """Values, or the arguments of `Producer.produce` (value, key, partition, timestamp, headers). All are acknowledged at the end."""
        from confluent_kafka import Producer

        problems: list[Any] = []
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        for value in values:
            record = value if isinstance(value, dict) else {"value": value}
            while True:
                try:
                    producer.produce(topic, **record, on_delivery=lambda error, _: problems.append(error) if error else None)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(60) == 0
        assert not problems, problems[0]

    def ends(self, topic: str) -> dict[int, int]:
        """By partition, the offset after the last committed record."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "tests", "isolation.level": "read_committed"})
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        ends = {partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), 60)[1] for partition in partitions}
        consumer.close()
        return ends

    def consume(self, topic: str, isolation: str = "read_committed") -> list[Any]:
        """All messages of the topic, up to its present end."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

        options = {"group.id": "tests", "enable.auto.commit": False, "isolation.level": isolation, "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.servers, **options})
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        messages: list[Any] = []
        open_partitions = set(partitions)
        while open_partitions:
            for message in consumer.consume(10_000, 1):
                if message.error() is None:
                    messages.append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                else:
                    raise AssertionError(message.error())
        consumer.close()
        return messages


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
