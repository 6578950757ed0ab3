"""Work beside the stream: at most one thread per name at a time, and none after `close`."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, Thread


class Background:
    """`guard` runs the work of every thread, and handles what it raises."""

    def __init__(self, guard: Callable[[Callable[[], None]], None]) -> None:
        self._guard = guard
        self._lock = Lock()
        self._threads: dict[str, Thread] = {}
        self._closed = False

    def start(self, name: str, work: Callable[[], None], daemon: bool = False) -> bool:
        """Starts the work, unless work of that name still runs; whether it was started. A program that ends waits for threads that are not
        daemons: native code must not be left in the middle."""
        with self._lock:
            if self._closed or self.is_running(name):
                return False
            thread = self._threads[name] = Thread(target=self._guard, args=(work,), name=name, daemon=daemon)
            thread.start()
            return True

    def is_running(self, name: str) -> bool:
        return name in self._threads and self._threads[name].is_alive()

    def join(self, name: str, timeout: float | None = None) -> None:
        """Waits for the work of that name, if there is any."""
        if name in self._threads:
            self._threads[name].join(timeout)

    def close(self) -> None:
        """After this nothing is started."""
        with self._lock:
            self._closed = True
