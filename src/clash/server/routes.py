"""`/api`: what is read of a run and what is changed. A change is accepted (202) and takes effect at the next epoch boundary; a
refreshed table with the next batch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from clash.errors import ClashError, TakenNameError, UnknownNameError
from clash.job.sinks import build_sink, resolve_from
from clash.server import snapshot
from clash.server.bodies import Addition, Question, Replacement, Workers, parse_body
from clash.server.context import JobContext
from clash.server.events import EventHub, EventStream
from clash.server.given_sinks import check_given_sink
from clash.server.limits import read_json
from clash.server.openapi import document
from clash.server.problems import ProblemError
from clash.server.threads import Slot, Threads
from clash.server.values import table_to_data

MAX_ROWS = 1_000  # of results in one answer
MAX_WAIT = 60.0  # seconds for a change to take effect
READS: dict[str, Callable[[Any], Any]] = {
    "topology": snapshot.topology,
    "generations": snapshot.generations,
}
_POLL = 0.1  # seconds between two looks at a change that is waited for


class Api:
    """The routes of one run. Calls of the run go through `threads`: they may wait for the planner or for Spark."""

    def __init__(self, run: Any, threads: Threads, hub: EventHub, job: JobContext) -> None:
        self._run, self._threads, self._hub, self._job = run, threads, hub, job

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/api/status", self._reading(lambda run: snapshot.hide_status(snapshot.status(run), self._job.hide)), methods=["GET"]),
            *(Route(f"/api/{name}", self._reading(take), methods=["GET"]) for name, take in READS.items()),
            Route("/api/queries", _by_method(GET=self._reading(snapshot.queries), POST=self.add_query), methods=["GET", "POST"]),
            Route("/api/queries/{name}", _by_method(PUT=self.replace_query, DELETE=self.remove_query), methods=["PUT", "DELETE"]),
            Route("/api/what-if", self.what_if, methods=["POST"]),
            Route("/api/workers", self.rescale, methods=["POST"]),
            Route("/api/tables/{name}/refresh", self.refresh_table, methods=["POST"]),
            Route("/api/results/{query}", self.results, methods=["GET"]),
            Route("/api/history", self.history, methods=["GET"]),
            Route("/api/events", self.events, methods=["GET"]),
            Route("/api/openapi.json", self.openapi, methods=["GET"]),
        ]

    async def _read(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with _statuses():
            return await asyncio.get_running_loop().run_in_executor(self._threads.reading, function, *arguments)

    async def _in(self, slot: Slot, request: Request, function: Callable[[], Any]) -> Any:
        with _statuses():
            return await slot.call(function, request.is_disconnected)

    def _response(self, data: Any, status: int = 200) -> Response:
        text = json.dumps(data, ensure_ascii=False)
        return Response(text, status, {"Cache-Control": "no-store"}, "application/json")

    # ---- reading -------------------------------------------------------------------------------------------------

    def _reading(self, take: Callable[[Any], Any]) -> Callable[[Request], Any]:
        async def endpoint(_request: Request) -> Response:
            return self._response(await self._read(take, self._run))

        return endpoint

    async def results(self, request: Request) -> Response:
        last, after = _number(request, "last", 20, 1, MAX_ROWS), _number(request, "after", -1, -1, 2**53)
        query = request.path_params["query"]

        def read() -> Any:
            found = self._run.last_results(query, last, after)
            return {"query": query, "batch": found.batch, "has_more": found.has_more, **table_to_data(found.rows)}

        return self._response(await self._read(read))

    async def history(self, request: Request) -> Response:
        after = _number(request, "after", -1, -1, 2**53)
        return self._response(await self._read(snapshot.history, self._run, after))

    async def events(self, _request: Request) -> Response:
        return EventResponse(self._hub.open())

    async def openapi(self, _request: Request) -> Response:
        return self._response(document())

    # ---- changing ------------------------------------------------------------------------------------------------

    async def add_query(self, request: Request) -> Response:
        body = parse_body(Addition, await read_json(request))
        return await self._query_change(request, self._run.add_query, body.name, body)

    async def replace_query(self, request: Request) -> Response:
        body = parse_body(Replacement, await read_json(request))
        return await self._query_change(request, self._run.replace_query, request.path_params["name"], body)

    async def _query_change(self, request: Request, call: Callable[..., Any], name: str, body: Replacement) -> Response:
        if not self._job.any_sink:
            check_given_sink(body.sink, self._job.folder, self._job.checkpoint)

        def change() -> Any:
            sink = build_sink(body.sink, resolve_from(self._job.folder), self._job.kafka, self._job.postgres)
            return call(name, body.sql, sink=sink, history=body.history, windows=body.windows, mode=body.mode)

        return await self._accepted(request, change)

    async def remove_query(self, request: Request) -> Response:
        return await self._accepted(request, lambda: self._run.remove_query(request.path_params["name"]))

    async def rescale(self, request: Request) -> Response:
        body = parse_body(Workers, await read_json(request))
        return await self._accepted(request, lambda: self._run.rescale(body.workers))

    async def refresh_table(self, request: Request) -> Response:
        return await self._accepted(request, lambda: self._run.refresh(request.path_params["name"]))

    async def what_if(self, request: Request) -> Response:
        body = parse_body(Question, await read_json(request))

        def assess() -> Any:
            answer = self._run.what_if(body.sql, windows=body.windows, mode=body.mode, replaces=body.replaces)
            return {**answer.to_data(), "plan": json.loads(answer.explain("json"))}

        return self._response(await self._in(self._threads.previews, request, assess))

    async def _accepted(self, request: Request, call: Callable[[], Any]) -> Response:
        """Requests a change; with `?wait=seconds`, answers when it is in effect, or that late."""
        wait = _number(request, "wait", 0, 0, int(MAX_WAIT))
        if not self._run.is_active:
            raise ProblemError(409, "the run has ended", "nothing can be changed any more", "start it again")
        change = await self._in(self._threads.changes, request, call)
        end = asyncio.get_running_loop().time() + wait
        while True:
            try:
                batch = change.wait(0)
            except ClashError as error:  # it was accepted, and could not be put into effect
                raise ProblemError(409, error.what, error.detail, error.hint) from None
            if batch is not None or asyncio.get_running_loop().time() >= end:
                return self._response({"change": change.description, "batch": batch, "complete_from": change.complete_from}, 202)
            await asyncio.sleep(_POLL)


@contextmanager
def _statuses() -> Iterator[None]:
    """What is wrong with a name has a status of its own."""
    try:
        yield
    except UnknownNameError as error:
        raise ProblemError(404, error.what, error.detail, error.hint) from None
    except TakenNameError as error:
        raise ProblemError(409, error.what, error.detail, error.hint) from None


def _by_method(**endpoints: Callable[[Request], Any]) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        response: Response = await endpoints["GET" if request.method == "HEAD" else request.method](request)
        return response

    return endpoint


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 18 and least <= sign * int(digits) <= most):
        raise ProblemError(422, f"{name} is out of range", f"{name}={text}", f"write a whole number from {least} to {most}")
    return sign * int(digits)


class EventResponse(StreamingResponse):
    """The stream of events is closed with the response, however that ends."""

    def __init__(self, events: EventStream) -> None:
        self._events = events
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._events.close()
