"""Calls of the planner: one at a time, few that wait, and nothing else that waits for them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx2 as httpx
import pytest
from tests.server.fake_run import FakeRun

from clash.server import threads
from clash.server.problems import ProblemError
from clash.server.threads import MAX_WAITING, Slot

SQL = "SELECT * FROM orders JOIN payments USING (order_id)"


async def _stays() -> bool:
    return False


async def _gone() -> bool:
    return True


def test_one_call_at_a_time_and_few_that_wait() -> None:
    release, calls = Event(), []

    def call() -> int:
        calls.append(1)
        number = len(calls)
        assert release.wait(60)
        return number

    async def ask() -> None:
        with ThreadPoolExecutor(4) as executor:
            slot = Slot(executor, MAX_WAITING)
            asked = [asyncio.create_task(slot.call(call, _stays)) for _ in range(1 + MAX_WAITING)]
            while not calls:
                await asyncio.sleep(0)
            with pytest.raises(ProblemError, match="the planner is busy") as caught:
                await slot.call(call, _stays)
            assert (caught.value.status, caught.value.headers) == (503, {"Retry-After": "1"})
            asked[0].cancel()  # its thread works on
            asked[1].cancel()  # it waits no more, and its place is free
            await asyncio.gather(*asked[:2], return_exceptions=True)
            gone = asyncio.create_task(slot.call(call, _gone))
            await asyncio.sleep(0)
            assert len(calls) == 1
            release.set()
            assert await asyncio.gather(*asked[2:]) == [2, 3, 4]
            with pytest.raises(ProblemError, match="the client has gone"):
                await gone

    asyncio.run(asyncio.wait_for(ask(), 60))


def test_a_request_waits_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "PLAN_WAIT_SECONDS", 0.05)
    release = Event()

    async def ask() -> None:
        with ThreadPoolExecutor(1) as executor:
            slot = Slot(executor, MAX_WAITING)
            first = asyncio.create_task(slot.call(lambda: release.wait(60), _stays))
            await asyncio.sleep(0)
            with pytest.raises(ProblemError, match="the planner is busy"):
                await slot.call(lambda: None, _stays)
            release.set()
            assert await first

    asyncio.run(asyncio.wait_for(ask(), 60))


def test_reading_does_not_wait_for_the_planner(run: FakeRun, http: httpx.Client) -> None:
    planning, release = Event(), Event()

    def what_if(_text: str, **_options: object) -> None:
        planning.set()
        release.wait(60)
        raise ProblemError(422, "done")

    run.what_if = what_if  # type: ignore[method-assign]
    with ThreadPoolExecutor(8) as clients:
        asked = [clients.submit(http.post, "/api/what-if", json={"sql": SQL}, timeout=60) for _ in range(1 + MAX_WAITING)]
        assert planning.wait(60)
        for _ in range(20):
            assert http.get("/api/status").status_code == 200
        release.set()
        assert [each.result().status_code for each in asked] == [422] * len(asked)
