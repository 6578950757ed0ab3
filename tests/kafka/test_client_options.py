"""One set of options, in the words of each client."""

from __future__ import annotations

from pathlib import Path

from clash.kafka.client_options import check_options, for_librdkafka, for_spark

TIMEOUTS = {"fetchOffset.numRetries": "18", "kafka.request.timeout.ms": "10000", "kafka.default.api.timeout.ms": "10000"}


def test_without_options() -> None:
    options = check_options("h:1", {})
    assert for_librdkafka(options) == {"bootstrap.servers": "h:1", "isolation.level": "read_committed"}
    assert for_spark(options) == {"kafka.bootstrap.servers": "h:1", "kafka.isolation.level": "read_committed", **TIMEOUTS}


def test_passwords_and_certificates(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("CERTIFICATE")
    given = {"kafka.security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": 'a"\\b'}
    found = for_spark(check_options("h:1", {**given, "ssl.ca.location": str(tmp_path / "ca"), "ssl.key.pem": "KEY"}))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    assert found == {
        "kafka.bootstrap.servers": "h:1",
        "kafka.isolation.level": "read_committed",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{module} required username="u" password="a\\"\\\\b";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "CERTIFICATE",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.key": "KEY",
        **TIMEOUTS,
    }


def test_a_call_of_spark_takes_as_long_as_a_request_may() -> None:
    found = for_spark(check_options("h:1", {"request.timeout.ms": 30_000}))
    assert found["kafka.request.timeout.ms"] == found["kafka.default.api.timeout.ms"] == "30000"
