"""The lock on storages that other machines reach: a lease, which its holder renews and which expires when it does not.

Invariant: two processes never both believe that they hold the lock. A holder stops believing it when `TRUST` of the lease's duration have
passed since it last asked for a renewal that was granted, by its own clock; others may take the lock only when the whole duration has
passed since the last renewal arrived, by the storage's clock. What is left between the two is the time for a write that was begun in
good faith. So the holder calls `check` before each write that must not follow another run's; clocks need to agree in speed only.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Protocol

from clash.errors import CheckpointError, ClashError, StateError

SECONDS = 60.0
"""How long a lease lasts without a renewal."""
TRUST = 0.75
_RENEWALS = 4  # per lease
_LOG = logging.getLogger("clash")


class Lease(Protocol):
    """A lease that this process has acquired."""

    @property
    def label(self) -> str:
        """The lock's full name, for messages."""

    def renew(self) -> None:
        """Extend it. CheckpointError if another process has it now; StateError if the storage does not answer."""

    def release(self) -> None:
        """Give it up; no effect if another process has it."""


class LeaseLock:
    """`acquire` gets the lease, or raises CheckpointError. A thread renews it until `release`, or until it is lost."""

    def __init__(self, acquire: Callable[[], Lease], seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._renewed = _now()  # when the last renewal that was granted was asked for
        self._lease = acquire()
        self._lost: ClashError | None = None
        self._trouble: StateError | None = None
        self._ended = Event()
        self._released = False
        self._renewing = Lock()
        self._thread = Thread(target=self._run, name="clash-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """CheckpointError if this process cannot be sure to hold the lock. A lease that was silent for long is renewed here: if that is
        granted, no other run had it in between."""
        if self._lost is None and not self._ended.is_set() and _now() - self._renewed > self._seconds * TRUST:
            self._renew()
            if self._lost is None and self._trouble is not None:
                silent = _now() - self._renewed
                self._lose(f"it could not be renewed for {silent:.0f} seconds: {self._trouble.detail}")
        if self._lost is not None:
            raise self._lost

    def release(self) -> None:
        """Give the lock free; calling it again has no effect."""
        if self._released:
            return
        self._released = True
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(ClashError):  # it expires by itself
            self._lease.release()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds / _RENEWALS):
            self._renew()

    def _renew(self) -> None:
        with self._renewing:
            if self._ended.is_set():
                return
            asked = _now()
            try:
                self._lease.renew()
                self._renewed, self._trouble = asked, None
            except StateError as error:
                self._trouble = error
                _LOG.warning("the checkpoint's lock could not be renewed, and is tried again: %s", error.detail)
            except ClashError as error:
                self._lose(error.detail)

    def _lose(self, cause: str) -> None:
        self._lost = CheckpointError(
            "this run has lost its checkpoint",
            f"{self._lease.label}: {cause}",
            "if another run has taken over, let it go on; otherwise start again: the batch in work, which is not committed, is run again",
        )
        self._ended.set()


def refused(label: str, holder: object, age: float, seconds: float) -> CheckpointError:
    """The error for a lock that another run has. `age`: the seconds since it was renewed."""
    return CheckpointError(
        "another run has this checkpoint",
        f"{label}: {holder or 'unknown'}; renewed {max(0, round(age))} seconds ago",
        f"stop it first, or give this one another checkpoint folder; if that run is dead, its lock expires {seconds:.0f} seconds after the "
        "last renewal, and deleting that file breaks it at once",
    )


def _now() -> float:
    """A clock that also runs while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
