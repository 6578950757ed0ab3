"""Ctrl-C and SIGTERM while a program waits for its run: the run is stopped, and the program ends with the usual exit code.

Invariant: a handler that the program has installed itself is never replaced. Handlers are in place only while the program waits, and only
in the main thread, as Python demands.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_LOG = logging.getLogger("clash")
_MAX_STOP = 10  # seconds for the end of the batch in work: an orchestrator kills a process soon after SIGTERM
_PYSPARK = "pyspark."  # its handler of SIGINT cancels all jobs, so that the batch in work fails


class ProgramInterrupt(SystemExit, KeyboardInterrupt):
    """Ctrl-C. A program can catch it as what it is; one that does not ends with exit code 130 and without a stack trace."""


@contextmanager
def stop_on_signal(stop: Callable[[], None]) -> Iterator[None]:
    """While the block runs, SIGINT and SIGTERM end it, and call `stop`, which may take a while: a second signal cuts it short."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: handler for number in (signal.SIGINT, signal.SIGTERM) if _is_default(handler := signal.getsignal(number))}
    try:
        for number in previous:
            signal.signal(number, _end_program)
        yield
    except (ProgramInterrupt, SystemExit) as end:
        if end.args and isinstance(end.args[0], _ExitCode):
            logging.getLogger().addFilter(_is_not_of_py4j)
            _stop_within(stop, _MAX_STOP)
        raise
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class _ExitCode(int):
    """Marks what a handler raised."""


def _end_program(number: int, _frame: object) -> None:
    code = _ExitCode(128 + number)
    raise ProgramInterrupt(code) if number == signal.SIGINT else SystemExit(code)


def _is_default(handler: Any) -> bool:
    """Whether a handler is that of the operating system, of Python or of PySpark."""
    return handler in (signal.SIG_DFL, signal.default_int_handler) or str(getattr(handler, "__module__", "")).startswith(_PYSPARK)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs calls of a JVM that has ended, as it has if the signal went to all processes, by the root logger."""
    return "py4j" not in Path(record.pathname).parts


def _stop_within(stop: Callable[[], None], seconds: float) -> None:
    """In a thread of its own: the connection of the main thread to the JVM may have been left in the middle of a call."""

    def run() -> None:
        with suppress(Exception):  # the JVM may have got the same signal
            stop()

    thread = threading.Thread(target=run, name="clash-stop", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        _LOG.warning("the batch in work did not end within %d seconds; the next start runs it again", seconds)
