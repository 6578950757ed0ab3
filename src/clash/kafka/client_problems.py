"""Why a client of Kafka has no connection.

A call that fails for that reason names none. The client reports it to a callback, which it calls only while it is polled.
"""

from __future__ import annotations

import time
from typing import Any

_FIRST = 1.0  # seconds of the first attempt; each one after it may take twice as long


class ClientProblems:
    """What a client has reported of itself so far: `note` is its error callback."""

    def __init__(self) -> None:
        self.last: Any = None

    def note(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # which names no reason
            self.last = error

    @property
    def text(self) -> str:
        """The last one, without a secret; empty if there is none."""
        return "" if self.last is None else str(self.last.str())

    @property
    def is_refusal(self) -> bool:
        """Whether another attempt would be refused, too: for the password, or for a certificate."""
        from confluent_kafka import KafkaError

        refusals = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL)
        return self.last is not None and self.last.code() in refusals


def request_topics(client: Any, problems: ClientProblems, timeout: float) -> Any:
    """`list_topics` of a client; KafkaException if the cluster does not answer within so many seconds, or refuses the client."""
    from confluent_kafka import KafkaException

    deadline, attempt = time.monotonic() + timeout, _FIRST
    while True:
        remaining = deadline - time.monotonic()
        try:
            return client.list_topics(timeout=max(0.1, min(attempt, remaining)))
        except KafkaException:
            client.poll(0)
            if problems.is_refusal:
                raise KafkaException(problems.last) from None
            if remaining <= attempt:
                raise
        attempt *= 2
