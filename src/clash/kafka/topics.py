"""Which topics a cluster has: checked before a run starts, so that a wrong name is an error with a name in it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from clash.errors import OptionError, SourceError
from clash.hints import did_you_mean, listed
from clash.kafka.client_options import Options, for_librdkafka
from clash.kafka.client_problems import ClientProblems, request_topics

_SECONDS = 15.0
_TRIES, _PAUSE = 5, 0.5  # seconds


def check_topics(options: Options, topics: Mapping[str, str]) -> str:
    """Raises unless all topics exist; the id of the cluster. `topics`: by stream. Brokers learn of a new topic one by one: it may take a
    moment."""
    found: list[str] = []
    for _ in range(_TRIES):
        metadata = _read_metadata(options)
        found = list(metadata.topics)
        if set(topics.values()) <= set(found):
            return str(metadata.cluster_id or "")
        time.sleep(_PAUSE)
    stream, topic = next((stream, topic) for stream, topic in topics.items() if topic not in found)
    others = sorted(name for name in found if not name.startswith("__"))
    servers = dict(options)["bootstrap.servers"]
    hint = f"the cluster has {listed(others)}" if others else "the cluster has no topics"
    raise OptionError("a Kafka topic is missing", f"stream {stream}: {topic!r} at {servers}", did_you_mean(topic, others, hint))


def _read_metadata(options: Options) -> Any:
    """Topics and the id of the cluster."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient

    problems = ClientProblems()
    try:
        settings: dict[str, Any] = {"log_level": 2, **for_librdkafka(options), "error_cb": problems.note}
        client = AdminClient(settings)
        return request_topics(client, problems, _SECONDS)
    except KafkaException as error:
        if error.args[0].code() == KafkaError._INVALID_ARG:  # its text has the value, which may be secret
            named = re.search(r'property:? "([^"]+)"', error.args[0].str())
            detail = f"options[{named[1]!r}]" if named is not None else "one of them"
            hint = "the options are those of librdkafka, and of Spark's client where the names are the same"
            raise OptionError("an option of Kafka is refused by its client", detail, hint) from None
        servers = dict(options)["bootstrap.servers"]
        if problems.is_refusal:
            hint = "check the user, the password and the certificates in the options of clash.sources.Kafka"
            raise SourceError("Kafka refuses the connection", f"{servers}: {problems.text}", hint) from None
        raise SourceError(
            "Kafka cannot be reached",
            f"{servers}: {problems.text or error.args[0].str()}",
            "check the address and the security options, and that the broker runs",
        ) from None
