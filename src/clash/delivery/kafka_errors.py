"""Errors of the Kafka client, by what can be done about them."""

from __future__ import annotations

from typing import Any

from clash.delivery.target import FencedError, RefusedError, UnavailableError


def explained(error: Any, problem: str) -> Exception:
    """The error that `Deliveries` knows; `problem`: what the client has reported of itself, as a refused password."""
    from confluent_kafka import KafkaError

    code, text = error.code(), f"{error.str()}{problem}"
    if code in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
        return FencedError(text)
    hint = _hint(code)
    return UnavailableError(text) if hint is None else RefusedError(text, hint)


def _hint(code: int) -> str | None:
    """What to do about an error that stays; None for one that may pass."""
    from confluent_kafka import KafkaError

    return {
        KafkaError.MSG_SIZE_TOO_LARGE: "set message.max.bytes in the sink's options, and max.message.bytes of the topic",
        KafkaError._INVALID_ARG: "correct the sink's options",
        KafkaError.TOPIC_AUTHORIZATION_FAILED: "allow the user to write to it; to create, read and write the topic that begins with clash-",
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "allow the user to write with the transactional.id, which begins with clash-",
        KafkaError.CLUSTER_AUTHORIZATION_FAILED: "allow the user to write with idempotence",
        KafkaError._AUTHENTICATION: "check the user and the password in the sink's options",
        KafkaError.SASL_AUTHENTICATION_FAILED: "check the user and the password in the sink's options",
        KafkaError._SSL: "check ssl.ca.location and the certificates in the sink's options",
        KafkaError.INVALID_TRANSACTION_TIMEOUT: "set a shorter transaction.timeout.ms in the sink's options",
    }.get(code)
