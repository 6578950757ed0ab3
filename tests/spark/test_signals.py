"""Signals while a program waits, without Spark."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from clash.spark import signals
from clash.spark.signals import ProgramInterrupt, stop_on_signal


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "code", "kind"), [(signal.SIGINT, 130, ProgramInterrupt), (signal.SIGTERM, 143, SystemExit)])
def test_a_signal_stops_and_ends(number: signal.Signals, code: int, kind: type[BaseException]) -> None:
    stopped = []
    before = signal.getsignal(number)
    with pytest.raises(kind) as end, stop_on_signal(lambda: stopped.append(threading.current_thread().name)):
        signal.raise_signal(number)
    assert stopped == ["clash-stop"]
    assert isinstance(end.value, SystemExit)
    assert end.value.code == code
    assert signal.getsignal(number) is before
    assert isinstance(end.value, KeyboardInterrupt) == (number == signal.SIGINT)  # programs catch Ctrl-C as that


def test_a_handler_of_the_program_stays() -> None:
    seen = []
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    with stop_on_signal(lambda: seen.append("stop")):
        signal.raise_signal(signal.SIGTERM)
    assert seen == [signal.SIGTERM]


def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with stop_on_signal(lambda: pytest.fail("not stopped")):
        signal.raise_signal(signal.SIGINT)


def test_pysparks_handler_counts_as_none() -> None:
    def handler(number: int, frame: Any) -> None: ...

    handler.__module__ = "pyspark.core.context"
    signal.signal(signal.SIGINT, handler)
    with pytest.raises(KeyboardInterrupt), stop_on_signal(lambda: None):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_stop_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(signals, "_MAX_STOP", 0.01)
    never = threading.Event()
    with pytest.raises(SystemExit), stop_on_signal(lambda: never.wait() and None):
        signal.raise_signal(signal.SIGTERM)
    assert "did not end within" in caplog.text
    never.set()


def test_other_exits_do_not_stop() -> None:
    with pytest.raises(SystemExit), stop_on_signal(lambda: pytest.fail("not stopped")):
        raise SystemExit(3)


def test_in_another_thread_nothing_is_installed() -> None:
    seen: list[Any] = []

    def wait() -> None:
        with stop_on_signal(lambda: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]
