"""Threads for calls of the run, which may wait for the planner, for Spark or for files.

Each kind of work has threads of its own, so that none of them waits for another: events go on while results are read, and both while the
planner works. Previews of queries are planned one at a time, and so are changes; too many more are refused, not queued.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from clash.server.problems import ProblemError

_READERS = 4  # each has a connection to the JVM of its own
MAX_WAITING = 4  # requests that wait for a preview before them
MAX_WAITING_CHANGES = 20  # that wait for a change before them: as many as are taken at once
PLAN_WAIT_SECONDS = 10.0  # that one of them waits, at most


class Threads:
    def __init__(self) -> None:
        self.reading: Executor = ThreadPoolExecutor(_READERS, "clash-server-read")
        self.events: Executor = ThreadPoolExecutor(1, "clash-server-events")
        self._previews: Executor = ThreadPoolExecutor(1, "clash-server-preview")
        self._changes: Executor = ThreadPoolExecutor(1, "clash-server-change")
        self.previews = Slot(self._previews, MAX_WAITING)
        self.changes = Slot(self._changes, MAX_WAITING_CHANGES)

    def close(self) -> None:
        for executor in (self.reading, self.events, self._previews, self._changes):
            executor.shutdown(wait=False, cancel_futures=True)


class Slot:
    """One call at a time. A few may wait for a moment; used by the one thread of the event loop."""

    def __init__(self, executor: Executor, limit: int) -> None:
        self._executor, self._limit = executor, limit
        self._free = asyncio.Lock()
        self._waiting = 0

    async def call(self, function: Callable[[], Any], is_gone: Callable[[], Awaitable[bool]]) -> Any:
        """`is_gone`: whether the client no longer waits for the answer; then the call is not made."""
        await self._take()
        try:
            if await is_gone():
                raise ProblemError(400, "the client has gone", "before its call was made")
            future = self._executor.submit(function)
        except BaseException:
            self._free.release()
            raise
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda done: self._finish(loop, done))  # not before: the thread works on when the request is given up
        return await asyncio.shield(asyncio.wrap_future(future))

    async def _take(self) -> None:
        if self._waiting >= self._limit:
            raise _busy(f"{self._limit} requests wait for it")
        self._waiting += 1
        try:
            async with asyncio.timeout(PLAN_WAIT_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            raise _busy(f"it did not become free within {PLAN_WAIT_SECONDS:g} seconds") from None
        finally:
            self._waiting -= 1

    def _finish(self, loop: asyncio.AbstractEventLoop, _done: Future[Any]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._free.release)


def _busy(detail: str) -> ProblemError:
    return ProblemError(503, "the planner is busy", detail, "try again in a moment", {"Retry-After": "1"})
