"""Who holds a lock: what a lock file says about the process that made it.

The record is for messages, and for one decision: whether the holder is known to be gone. That is known only of processes of this machine,
as this process sees them: the identity of the boot and of the name space of process ids must be the same.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import secrets
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from clash.codec import Codec, dump

_DEAD = ("Z", "X")  # states of processes that only wait to be forgotten


@dataclass(frozen=True)
class LockOwner:
    user: str
    host: str
    process: int
    since: str
    """When it got the lock, by its clock."""
    token: str
    """Names this acquisition: no other has it."""
    machine: str = ""
    """The boot and the name space of process ids; empty where the system does not tell."""
    started: str = ""
    """When the process began, in the system's ticks: a process id is used again."""
    renewals: int = 0

    def __str__(self) -> str:
        return f"{self.user}@{self.host}, process {self.process}, since {self.since}"

    @property
    def content(self) -> bytes:
        return dump(_CODEC.encode(self)).encode() + b"\n"

    @property
    def is_gone(self) -> bool:
        """Whether the process is known to have ended, or is this one and has given the lock up."""
        if not self.machine or self.machine != _machine():
            return False
        is_running = _started(self.process) == self.started
        return self.token not in held_here if is_running and self.process == os.getpid() else not is_running


held_here: set[str] = set()
"""The tokens of leases that runs of this process have. One whose storage did not answer when it was released is not among them."""

_CODEC: Codec[LockOwner] = Codec(LockOwner)


def this_process() -> LockOwner:
    """An owner with a new token."""
    since = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
    pid = os.getpid()
    return LockOwner(_user(), socket.gethostname(), pid, since, secrets.token_hex(8), _machine(), _started(pid))


def read_owner(content: bytes) -> LockOwner | None:
    """What a lock file says; None if it says nothing that can be read."""
    try:
        owner = _CODEC.decode(json.loads(content))
    except (ValueError, RecursionError):
        return None
    texts = (owner.user, owner.host, owner.since, owner.token, owner.machine, owner.started)
    is_record = all(isinstance(text, str) for text in texts) and type(owner.process) is int and type(owner.renewals) is int
    return owner if is_record else None


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a process in a container may run under a number that has no name
        return str(os.getuid())


def _machine() -> str:
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    return ""


def _started(process: int) -> str:
    """When a process of this machine began; empty if there is none."""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()  # its name may contain anything
        return "" if fields[0] in _DEAD else fields[19]
    return ""
