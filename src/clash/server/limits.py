"""How much may be asked of a server that runs beside a stream: sizes, rates, and how long a client may take."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request

from clash.server.problems import ProblemError

MAX_BODY = 256 * 1024  # bytes of a request
MAX_SQL = 64 * 1024  # characters of a query
MAX_STREAMS = 64  # clients that receive events at a time
MAX_CONNECTIONS = 512
BODY_SECONDS = 10.0  # that a client may take to send a body
HEAD_SECONDS = 10.0  # that a client may take to send the head of a request
KEEP_ALIVE_SECONDS = 15  # that a connection may be silent between two requests
SEND_SECONDS = 30.0  # that a client may take to receive an event, or another part of an answer
READS = (200.0, 400.0)  # requests per second that read, and how many at once
CHANGES = (5.0, 20.0)  # the same of those that change something or plan
REFUSALS = (5.0, 50.0)  # and of those without a token


class Bucket:
    """Refuses requests above a rate. Used by the one thread of the event loop."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self._clock = rate, burst, clock
        self._left, self._at = burst, clock()

    def take(self) -> None:
        now = self._clock()
        self._left, self._at = min(self.burst, self._left + (now - self._at) * self.rate), now
        if self._left < 1:
            raise ProblemError(
                429,
                "too many requests",
                f"more than {self.rate:g} per second, after {self.burst:g} at once",
                "wait a second, and ask less often",
                {"Retry-After": "1"},
            )
        self._left -= 1


async def read_json(request: Request) -> Any:
    """The body of a request as JSON: declared so, of bounded size, and sent within bounded time."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ProblemError(
            415, "the body is not declared as JSON", f"Content-Type: {kind or '(none)'}", "send Content-Type: application/json"
        )
    body = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY:
                    raise ProblemError(413, "the body is too large", f"more than {MAX_BODY:,} bytes", "send less", {"Connection": "close"})
    except TimeoutError:
        hint = "send the whole request at once"
        raise ProblemError(408, "the body did not arrive in time", f"{BODY_SECONDS:g} seconds", hint, {"Connection": "close"}) from None
    except ClientDisconnect:
        raise ProblemError(400, "the client has gone", "before its body had arrived") from None
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        detail = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise ProblemError(400, "the body is not JSON", detail, "send a JSON object") from None
