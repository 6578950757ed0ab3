"""The names that Kafka's topics may have."""

from __future__ import annotations

import re

from clash.errors import OptionError

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def check_topic_name(topic: object) -> None:
    """OptionError unless it is one."""
    if not isinstance(topic, str) or not _NAME.fullmatch(topic) or topic in (".", ".."):
        hint = "topics have letters, digits, dots, underscores and hyphens, 249 at most"
        raise OptionError("not the name of a Kafka topic", repr(topic), hint)
