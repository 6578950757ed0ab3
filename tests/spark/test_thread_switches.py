"""Python's switch interval while runs are active."""

from __future__ import annotations

import sys

from clash.spark.thread_switches import short_switch_interval


def test_it_is_short_until_the_last_run_has_ended() -> None:
    before = sys.getswitchinterval()
    with short_switch_interval():
        short = sys.getswitchinterval()
        with short_switch_interval():
            assert sys.getswitchinterval() == short
        assert sys.getswitchinterval() == short < before
    assert sys.getswitchinterval() == before


def test_a_shorter_one_of_the_user_stays() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    try:
        with short_switch_interval():
            assert sys.getswitchinterval() < 0.0002
    finally:
        sys.setswitchinterval(before)
