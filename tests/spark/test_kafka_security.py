"""A broker that asks for passwords and certificates: both clients get the same options, and nothing secret is shown or written."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers import KafkaServer
from tests.servers.kafka import SECRET

import clash

from .kafka_join import KafkaJoin


@pytest.fixture(scope="module")
def server(kafka_server: KafkaServer) -> KafkaServer:
    if kafka_server.certificates is None:
        pytest.skip("no openssl, which makes certificates")
    kafka_server.add_scram_user()
    return kafka_server


@pytest.fixture
def log(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Path]:
    """A file with what the JVM logs; what the engine logs is in `caplog`. Both have more than users see unless they ask for it."""
    log4j = spark._jvm.org.apache.logging.log4j
    root = log4j.LogManager.getContext(False).getConfiguration().getRootLogger()
    path = tmp_path / "jvm.log"
    builder = log4j.core.appender.FileAppender.newBuilder()
    builder.withFileName(str(path)).setName("security").setLayout(log4j.core.layout.PatternLayout.createDefaultLayout())
    appender = builder.build()
    appender.start()
    root.addAppender(appender, None, None)
    spark.sparkContext.setLogLevel("INFO")
    with caplog.at_level(logging.DEBUG, logger="clash"), caplog.at_level(logging.DEBUG, logger="clash.kafka"):
        yield path
    spark.sparkContext.setLogLevel("OFF")
    root.removeAppender("security")
    appender.stop()


def reach(server: KafkaServer, how: str) -> tuple[str, dict[str, str]]:
    """The address and the options of a client."""
    return (server.tls_servers, server.tls_options) if how == "certificate" else (server.sasl_servers, server.sasl_options(how))


def check_hidden(secrets: list[str], root: Path, *texts: str) -> None:
    files = [file for file in root.rglob("*") if file.is_file()]
    assert files
    for secret in secrets:
        assert not any(secret in text for text in texts)
        assert [file for file in files if secret.encode() in file.read_bytes()] == []


@pytest.mark.parametrize("how", ["PLAIN", "SCRAM-SHA-512", "certificate"])
def test_both_clients_take_the_same_options(
    spark: Any, server: KafkaServer, tmp_path: Path, how: str, log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert server.certificates is not None
    key = server.certificates.client_key.read_text()
    secrets = [SECRET, key.splitlines()[1]]
    job = KafkaJoin(spark, server, tmp_path, *reach(server, how))
    job.feed()
    engine = job.engine()
    run = engine.start(available_now=True)
    assert run.await_termination(120)
    check_hidden(secrets, tmp_path, caplog.text, repr(engine), repr(run), str(run.progress), str(run.explain()))
    assert "AdminClientConfig values" in log.read_text(), "the JVM's log is not there"
    job.check()


def test_a_refused_client_is_named_and_its_password_is_not(
    spark: Any, server: KafkaServer, tmp_path: Path, log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers, options = reach(server, "SCRAM-SHA-512")
    wrong = {**options, "sasl.password": "wrong-secret"}
    job = KafkaJoin(spark, server, tmp_path, servers, wrong)
    with pytest.raises(clash.SourceError, match="Kafka refuses the connection") as refused:
        job.engine().start()
    assert "SASL authentication error" in refused.value.detail
    assert "the password" in refused.value.hint
    sink = clash.sinks.Kafka(f"{job.name}-out", servers=servers, create=1, options=wrong)
    engine = clash.Engine(spark, tmp_path / "ck")
    engine.stream("R", clash.sources.Kafka(spark, servers, options=options).json(f"{job.name}-R", "a long, x long"))
    engine.query("q", "SELECT R.a FROM R", sink=sink)
    with pytest.raises(clash.SinkError, match="a sink does not take the results") as refused_sink:
        engine.start()
    assert "SASL authentication error" in refused_sink.value.detail
    assert "the password" in refused_sink.value.hint
    check_hidden(["wrong-secret", SECRET], tmp_path, str(refused.value), str(refused_sink.value), caplog.text, repr(sink), repr(engine))
