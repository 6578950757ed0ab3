"""Which names of topics Kafka takes."""

from __future__ import annotations

import pytest

from clash.errors import OptionError
from clash.model.topic_name import check_topic_name


def test_names() -> None:
    for name in ("orders", "shop.orders_2-x", "a" * 249, "..."):
        check_topic_name(name)
    for other in ("", ".", "..", "a b", "é", "a" * 250, "a\n", None, 3):
        with pytest.raises(OptionError, match="not the name of a Kafka topic"):
            check_topic_name(other)
