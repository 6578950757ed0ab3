"""`/api/events`: what a run does, as server-sent events.

One thread takes snapshots while somebody listens, whatever the number of listeners, so that listeners cost the stream nothing. An event has
the name of its snapshot and the whole of it as JSON, and is sent when the snapshot has changed. A client that reads slowly gets fewer
events, never a queue of them: only the newest of each name counts.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from clash.server.limits import MAX_STREAMS
from clash.server.problems import ProblemError, three_parts
from clash.server.snapshot import hide_status

_LOG = logging.getLogger("clash")
INTERVAL = 1.0  # seconds between two snapshots
_KEEP_ALIVE = 15.0  # seconds after which a comment is sent, so that both sides notice a lost connection
ENDED = "ended"

Snapshots = Mapping[str, Callable[[Any], Any]]


class EventHub:
    """Snapshots of one run for any number of clients. All methods are called in the event loop's thread."""

    def __init__(
        self,
        run: Any,
        snapshots: Snapshots,
        executor: Executor,
        hide: Callable[[str], str] = str,
        interval: float = INTERVAL,
        limit: int = MAX_STREAMS,
    ) -> None:
        self._run, self._snapshots, self._executor, self._interval, self._limit = run, snapshots, executor, interval, limit
        self._hide = hide
        self._latest: dict[str, tuple[int, str]] = {}  # by name: a version, and the snapshot as JSON
        self._version = 0
        self._changed = asyncio.Condition()
        self._listeners = 0
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def listeners(self) -> int:
        return self._listeners

    def open(self) -> EventStream:
        """A stream of events as text, which counts until it is closed; refused above the limit."""
        if self._listeners >= self._limit:
            detail, hint = f"{self._limit} are open", "close a page, or try again later"
            raise ProblemError(503, "too many event streams", detail, hint, {"Retry-After": "5"})
        self._listeners += 1
        return EventStream(self)

    def closed(self) -> None:
        """A stream of events is closed."""
        self._listeners -= 1

    async def events(self) -> AsyncIterator[str]:
        sent: dict[str, int] = {}
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        yield "retry: 2000\n\n"
        while True:
            news = [(name, version, text) for name, (version, text) in self._latest.items() if sent.get(name) != version]
            for name, version, text in news:
                sent[name] = version
                yield f"event: {name}\ndata: {text}\n\n"
            if ENDED in sent or self._closed:
                return
            if not news and not await self._wait_for_change():
                yield ": alive\n\n"

    async def _wait_for_change(self) -> bool:
        """Whether something has changed; False after a while without."""
        try:
            async with asyncio.timeout(_KEEP_ALIVE), self._changed:
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def _watch(self) -> None:
        """Goes on whatever fails: without it, listeners would get nothing but signs of life."""
        while self._listeners and not self._closed:
            try:
                if await self._look():
                    return
            except Exception as error:
                _LOG.debug("the run could not be looked at: %s", error)
            await asyncio.sleep(self._interval)

    async def _look(self) -> bool:
        """Publishes what has changed; whether the run has ended."""
        active = bool(await self._call(lambda: self._run.is_active))  # before the snapshots: of a run that has ended they are the last
        for name, take in self._snapshots.items():
            try:
                text = await self._call(self._take, name, take)
            except Exception as error:  # Spark may have been stopped; the page shows the last snapshot
                _LOG.debug("no snapshot %s: %s", name, error)
                continue
            if name not in self._latest or self._latest[name][1] != text:
                await self._publish(name, text)
        if not active:
            failure = await self._call(lambda: self._run.exception)
            parts = None if failure is None else three_parts(failure, self._hide)
            await self._publish(ENDED, json.dumps({"error": parts}, ensure_ascii=False))
        return not active

    async def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)

    def _take(self, name: str, take: Callable[[Any], Any]) -> str:
        data = take(self._run)
        return json.dumps(hide_status(data, self._hide) if name == "status" else data, ensure_ascii=False)

    async def _publish(self, name: str, text: str) -> None:
        self._version += 1
        self._latest[name] = (self._version, text)
        async with self._changed:
            self._changed.notify_all()

    async def close(self) -> None:
        """Ends all streams."""
        self._closed = True
        async with self._changed:
            self._changed.notify_all()


class EventStream:
    """The events for one client. It is closed when the client has gone, also one that has gone before its first event: a generator that was
    never started would not notice."""

    def __init__(self, hub: EventHub) -> None:
        self._hub = hub
        self._is_open = True

    def __aiter__(self) -> AsyncIterator[str]:
        return self._hub.events()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._hub.closed()
