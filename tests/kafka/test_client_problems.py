"""A cluster that does not answer: the error has the reason that the client knows."""

from __future__ import annotations

import pytest

from clash.errors import SourceError
from clash.kafka import topics
from clash.kafka.client_options import check_options


def test_the_reason_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_SECONDS", 1.0)
    with pytest.raises(SourceError, match="Kafka cannot be reached") as caught:
        topics.check_topics(check_options("127.0.0.1:1", {}), {})
    assert caught.value.detail.startswith("127.0.0.1:1: ")
    assert "Connection refused" in caught.value.detail
