"""Kafka: one broker, or several."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from .certificates import Certificates, make_certificates
from .kafka_clients import KafkaClients
from .programs import free_port, get

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
USER, SECRET = "shop", "word-7e1fc0"
PASSWORD = f'a"b{chr(92)}{SECRET}'  # with characters that have a meaning in Java's configuration


class KafkaServer(KafkaClients):
    """A Kafka broker over a folder. It may be stopped or killed and started again: its data stay. It is its own controller, or one of those
    of a cluster: `voters` are the addresses of all of them, and `node` is its place among them, from 1.

    `session`: seconds after which a broker that was killed counts as gone, and may register again. A session that is too short ends while
    the machine is busy: the broker then leads no partition, and the producers of a transaction get "not coordinator".
    `settings`: of the broker. `secured`: it listens at `sasl_servers` and `tls_servers`, too."""

    def __init__(
        self,
        folder: Path,
        *,
        session: float = 6,
        settings: Mapping[str, str] | None = None,
        secured: bool = False,
        voters: tuple[str, ...] = (),
        node: int = 1,
        heap: int = 384,
    ) -> None:
        pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")
        import pyspark

        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else "java"
        memory = ["-Xms64m", f"-Xmx{heap}m", "-XX:+UseSerialGC"]
        scala = next((Path(pyspark.__file__).parent / "jars").glob("scala-library*.jar"))
        options = [*memory, "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        self._java = [str(java), *options, "-cp", f"{get('kafka')}/*:{scala}"]
        self._folder, self._node = folder, node
        self._settings = folder / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        voters = voters or (_address(),)
        self.servers, self.sasl_servers, self.tls_servers = _address(), _address(), _address()
        self.certificates: Certificates | None = make_certificates(folder) if secured else None
        listeners = {"PLAINTEXT": self.servers} | ({"SASL_SSL": self.sasl_servers, "SSL": self.tls_servers} if secured else {})
        copies = str(len(voters))
        all_settings = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": ",".join(f"{number}@{address}" for number, address in enumerate(voters, 1)),
            "listeners": ",".join(f"{name}://{address}" for name, address in (listeners | {"CONTROLLER": voters[node - 1]}).items()),
            "advertised.listeners": ",".join(f"{name}://{address}" for name, address in listeners.items()),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL",
            "log.dirs": f"{folder}/data",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": "1",
            "default.replication.factor": copies,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
            "group.initial.rebalance.delay.ms": "0",
            "broker.session.timeout.ms": str(round(1000 * session)),
            "broker.heartbeat.interval.ms": "500",
            "auto.create.topics.enable": "false",
            "log.retention.ms": "-1",  # records with times of long ago stay; a topic may have a `retention.ms` of its own,
            "log.retention.check.interval.ms": "1000",  # and tests of it do not wait for minutes
            "log.segment.delete.delay.ms": "500",
            "log.initial.task.delay.ms": "1000",
            "log.cleaner.dedupe.buffer.size": "4194304",  # of 128 MB
            **(self._security() if secured else {}),
            **(settings or {}),
        }
        escaped = {name: value.replace("\\", "\\\\") for name, value in all_settings.items()}
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()))

    def _security(self) -> dict[str, str]:
        assert self.certificates is not None
        store = self._folder / "server-store.pem"  # Java wants the key and the certificate in one file
        store.write_text(self.certificates.server_key.read_text() + self.certificates.server.read_text())
        user, password = USER, PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        package = "org.apache.kafka.common.security"
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority),
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{package}.plain.PlainLoginModule required user_{user}="{password}";',
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{package}.scram.ScramLoginModule required;",
        }

    def sasl_options(self, mechanism: str) -> dict[str, str]:
        """Of a client of `sasl_servers`."""
        assert self.certificates is not None
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.certificates.authority),
        }

    @property
    def tls_options(self) -> dict[str, str]:
        """Of a client of `tls_servers`, which knows clients by their certificates."""
        assert self.certificates is not None
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.certificates.authority),
            "ssl.certificate.location": str(self.certificates.client),
            "ssl.key.location": str(self.certificates.client_key),
        }

    def add_scram_user(self) -> None:
        """USER may log in by SCRAM-SHA-512, too: brokers keep its password in their own topic."""
        from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        admin = self.admin()
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, how, PASSWORD.encode())])[USER].result(60)

    def start(self, wait: bool = True) -> None:
        """Returns when it answers; without `wait` at once."""
        data = self._folder / "data"
        if not data.exists():  # as `kafka-storage format` does, which takes seconds
            data.mkdir()
            (data / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={self._node}\n")
        with (self._folder / "log").open("ab") as log:
            command = [*self._java, "kafka.Kafka", str(self._settings)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        if wait:
            self.await_answer()

    def await_answer(self) -> None:
        assert self._process is not None
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


class KafkaCluster(KafkaClients):
    """Brokers that all have all records, and are the controllers together."""

    def __init__(self, folder: Path, brokers: int = 3) -> None:
        voters = tuple(_address() for _ in range(brokers))
        self.brokers = brokers
        self.nodes = []
        for node in range(1, brokers + 1):
            (folder / str(node)).mkdir(parents=True)
            self.nodes.append(KafkaServer(folder / str(node), session=3, voters=voters, node=node, heap=192))
        self.servers = ",".join(node.servers for node in self.nodes)

    def start(self) -> None:
        for node in self.nodes:
            node.start(wait=False)
        for node in self.nodes:
            node.await_answer()

    def leader(self, topic: str, partition: int = 0) -> KafkaServer:
        return self.nodes[self.admin().list_topics(topic, timeout=60).topics[topic].partitions[partition].leader - 1]

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()


def _address() -> str:
    return f"127.0.0.1:{free_port()}"
