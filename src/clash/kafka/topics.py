"""Which topics a cluster has: checked before a run starts, so that a wrong name is an error with a name in it."""

from __future__ import annotations

from collections.abc import Mapping

from clash.errors import OptionError, SourceError
from clash.hints import did_you_mean, listed
from clash.kafka.client_options import Options, for_librdkafka

_SECONDS = 15.0


def check_topics(options: Options, topics: Mapping[str, str]) -> None:
    """Raises unless all topics exist. `topics`: by stream."""
    found = list_topics(options)
    for stream, topic in topics.items():
        if topic not in found:
            others = [name for name in found if not name.startswith("__")]
            servers = dict(options)["bootstrap.servers"]
            hint = f"the cluster has {listed(sorted(others))}" if others else "the cluster has no topics"
            raise OptionError("a Kafka topic is missing", f"stream {stream}: {topic!r} at {servers}", did_you_mean(topic, others, hint))


def list_topics(options: Options) -> list[str]:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        return list(AdminClient({"log_level": 2, **for_librdkafka(options)}).list_topics(timeout=_SECONDS).topics)
    except KafkaException as error:
        servers = dict(options)["bootstrap.servers"]
        raise SourceError(
            "Kafka cannot be reached",
            f"{servers}: {error.args[0].str()}",
            "check the address and the security options, and that the broker runs",
        ) from None
