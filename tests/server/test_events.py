"""Streams of events are counted, and no longer count when their clients have gone."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2 as httpx
import pytest
from tests.server.conftest import TOKEN
from tests.server.fake_run import FakeRun

from clash.server import serve
from clash.server.events import EventHub
from clash.server.problems import ProblemError
from clash.server.routes import EventResponse

SCOPE = {"type": "http", "asgi": {"spec_version": "2.4"}, "method": "GET", "path": "/api/events", "headers": []}


class _EndedRun:
    is_active = False
    exception = None


async def _receive() -> dict[str, Any]:
    await asyncio.sleep(3600)
    raise AssertionError


async def _gone(_message: Any) -> None:
    raise OSError("the client has gone")


async def _taken(_message: Any) -> None:
    return


@pytest.mark.parametrize("send", [_gone, _taken])
def test_a_client_that_has_gone_no_longer_counts(send: Any) -> None:
    """Also one that has gone before its first event."""

    async def respond() -> None:
        with ThreadPoolExecutor(1) as executor:
            hub = EventHub(_EndedRun(), {}, executor, limit=1)
            for _ in range(3):
                response = EventResponse(hub.open())
                assert hub.listeners == 1
                with pytest.raises(ProblemError, match="too many event streams"):
                    hub.open()
                try:
                    await response(SCOPE, _receive, send)
                except Exception as error:
                    assert send is _gone, error
                assert hub.listeners == 0

    asyncio.run(asyncio.wait_for(respond(), 60))


class _FailingRun:
    """Its state cannot be read at first, as that of a run whose connection to Spark is interrupted."""

    exception = None

    def __init__(self) -> None:
        self.failures = 3
        self.looks = 0

    @property
    def is_active(self) -> bool:
        self.looks += 1
        if self.looks <= self.failures:
            raise RuntimeError("no answer")
        return self.looks < 6


def test_events_go_on_after_a_failure() -> None:
    async def listen() -> list[str]:
        with ThreadPoolExecutor(1) as executor:
            hub = EventHub(_FailingRun(), {"looks": lambda run: run.looks}, executor, interval=0)
            stream = hub.open()
            try:
                return [event async for event in stream]
            finally:
                stream.close()

    events = asyncio.run(asyncio.wait_for(listen(), 60))
    assert "event: looks\ndata: 6\n\n" in events
    assert events[-1].startswith("event: ended")


def test_a_server_that_stops_ends_its_streams(caplog: pytest.LogCaptureFixture) -> None:
    server = serve.serve(FakeRun(), "127.0.0.1:0", token=TOKEN)
    with httpx.stream("GET", f"{server.address}/api/events", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as response:
        lines = response.iter_lines()
        assert next(lines).startswith("retry:")
        server.stop()
        list(lines)  # up to the end: an answer that is cut off raises
    assert [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []
