"""One set of options for the two clients that a job has: librdkafka in tasks, and Spark's connector, which is Java's client.

Most options have the same name in both. Where they differ, the name is librdkafka's, and Java's is derived. Options may have secrets: they
are never printed, and reach tasks as their arguments alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from clash.errors import OptionError

Options = tuple[tuple[str, str], ...]  # sorted: equal options are equal keys
_OURS = {
    "bootstrap.servers": "the servers are an argument of their own",
    "group.id": "offsets are kept in the checkpoint, and no group is joined",
    "enable.auto.commit": "offsets are kept in the checkpoint",
    "auto.offset.reset": "write starting= and on_loss=",
    "enable.auto.offset.store": "offsets are kept in the checkpoint",
    "enable.partition.eof": "the end of a partition is needed to know that a batch is complete",
}
_JAAS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_SASL = ("sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password")
_PEM = {"ssl.certificate": "ssl.keystore.certificate.chain", "ssl.key": "ssl.keystore.key", "ssl.ca": "ssl.truststore.certificates"}
_PEM_OPTIONS = tuple(f"{name}.{form}" for name in _PEM for form in ("location", "pem"))
_LIBRDKAFKA_ONLY = (*_PEM_OPTIONS, "debug", "log_level")
# Java's client waits for a leader that is gone until its call times out, a minute by default, and takes the new one with the next call.
_TIMEOUT = 10_000  # milliseconds of a call of Java's client
_ATTEMPTS = 18  # of Spark to ask for offsets: three minutes in all, as by default


def check_options(servers: object, options: object) -> Options:
    """The options as they are kept, servers included; OptionError names what is wrong, without values."""
    if not isinstance(servers, str) or not servers.strip() or any(character.isspace() for character in servers.strip()):
        raise OptionError("the Kafka servers are not addresses", repr(servers), 'write "host:9092", or "host1:9092,host2:9092"')
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise OptionError("the options of Kafka are not a table", type(options).__name__, 'write options={"security.protocol": "SSL"}')
    for key, value in options.items():
        name = key.removeprefix("kafka.")
        if name in _OURS:
            raise OptionError("an option of Kafka is set by the engine", f"options[{key!r}]", _OURS[name])
        if name.endswith("_cb") or not isinstance(value, str | int | float | bool):
            raise OptionError("an option of Kafka is not text", f"options[{key!r}] is a {type(value).__name__}", "write text or a number")
    found = {key.removeprefix("kafka."): str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}
    mechanism = found.get("sasl.mechanism", found.get("sasl.mechanisms"))
    if "sasl.username" in found and mechanism not in _JAAS:
        raise OptionError("the SASL mechanism is not supported", f"{mechanism!r}", f"write one of {', '.join(_JAAS)}")
    # both clients must agree; Java's default are records of transactions that may be aborted
    return tuple(sorted({"isolation.level": "read_committed", **found, "bootstrap.servers": servers.strip()}.items()))


def for_librdkafka(options: Options) -> dict[str, str]:
    return dict(options)


def for_spark(options: Options) -> dict[str, str]:
    """Options of Spark's source: those of its client have the prefix `kafka.`."""
    given = dict(options)
    java = {key: value for key, value in given.items() if key not in (*_SASL, *_LIBRDKAFKA_ONLY)}
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms"))
    if mechanism is not None:
        java["sasl.mechanism"] = mechanism
    if mechanism in _JAAS and "sasl.username" in given:
        user, password = (_quoted(given.get(f"sasl.{name}", "")) for name in ("username", "password"))
        java["sasl.jaas.config"] = f"{_JAAS[mechanism]} required username={user} password={password};"
    for name, java_name in _PEM.items():
        pem = given.get(f"{name}.pem") or _content(given.get(f"{name}.location"), f"{name}.location")
        if pem is not None:
            java |= {java_name: pem, "ssl.truststore.type" if name == "ssl.ca" else "ssl.keystore.type": "PEM"}
    java.setdefault("request.timeout.ms", str(_TIMEOUT))
    java["default.api.timeout.ms"] = java["request.timeout.ms"]
    return {"fetchOffset.numRetries": str(_ATTEMPTS)} | {f"kafka.{key}": value for key, value in java.items()}


def _content(path: str | None, option: str) -> str | None:
    """Java's client takes certificates and keys as text: it does not have librdkafka's options for their files."""
    if path is None:
        return None
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        hint = "name a PEM file that the driver can read"
        raise OptionError("a file for Kafka cannot be read", f"options[{option!r}]: {type(error).__name__}", hint) from None


def _quoted(text: str) -> str:
    """A value of a JAAS configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
