"""The application: static files, `/healthz` and `/api`, behind the checks that every request passes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clash.errors import ClashError
from clash.server import snapshot
from clash.server.access import Access
from clash.server.context import JobContext
from clash.server.events import INTERVAL, EventHub
from clash.server.limits import CHANGES, READS, REFUSALS, Bucket
from clash.server.metrics import CONTENT_TYPE, metrics_text
from clash.server.problems import ProblemError, problem_response
from clash.server.routes import Api
from clash.server.threads import Threads

_LOG = logging.getLogger("clash")
STATIC = Path(__file__).with_name("static")
HEALTH = "/healthz"
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# Not a redirect: browsers do not send a cookie that is SameSite=Strict where a link on another site leads to by redirects alone.
_GO_ON = """<!doctype html><html lang="en"><meta charset="utf-8"><title>CLASH</title>
<meta http-equiv="refresh" content="0; url={url}"><p><a href="{url}">Go on to the page of the run</a></p></html>"""
_ASK_FOR_TOKEN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>CLASH: token needed</title>
<h1>This page needs its token</h1><p>Open the address that the run has printed: it ends with <code>?token=…</code></p></html>"""


def create_app(run: Any, access: Access, threads: Threads, job: JobContext | None = None, interval: float = INTERVAL) -> Guard:
    """The application of one run. `threads`: for calls of the run."""
    job = job or JobContext.of(run)
    hub = EventHub(run, snapshot.EVENTS, threads.events, job.hide, interval)
    application = Starlette(
        routes=[
            Route(HEALTH, _healthz),
            *Api(run, threads, hub, job).routes,
            Route("/metrics", _metrics(run, job.name, hub, threads), methods=["GET"]),
        ],
        exception_handlers={ClashError: _on_error(job.hide), HTTPException: _on_http, Exception: _on_failure},
    )
    # not a route: one that takes every path would answer for others whose method does not fit
    application.router.redirect_slashes = False
    application.router.default = StaticFiles(directory=STATIC, html=True)
    return Guard(application, access, hub)


class Guard:
    """Every request passes it: host, origin, token, rate. It adds the headers that keep browsers careful."""

    def __init__(self, app: ASGIApp, access: Access, hub: EventHub) -> None:
        self.app, self.access, self.hub = app, access, hub
        self._reads, self._changes, self._refusals = Bucket(*READS), Bucket(*CHANGES), Bucket(*REFUSALS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
            await send(message)

        try:
            answer = self._check(request)
        except ProblemError as problem:
            answer = _refusal(request, problem)
        await (self.app if answer is None else answer)(scope, receive, send_with_headers)

    def _check(self, request: Request) -> Response | None:
        """A response in place of the application's; None to go on."""
        headers: Headers = request.headers
        self.access.check_origin(headers)
        if request.url.path == HEALTH:
            return None
        given = request.query_params.get("token")
        if given is not None and request.method == "GET" and not request.url.path.startswith("/api"):
            if not self.access.is_token(given):
                self._refusals.take()
                raise ProblemError(401, "the token is wrong", "the token of another run?", "open the address that the run has printed")
            return self._with_cookie(request)
        try:
            self.access.check_token(headers)
        except ProblemError:
            self._refusals.take()
            raise
        (self._reads if request.method in ("GET", "HEAD") else self._changes).take()
        return None

    def _with_cookie(self, request: Request) -> Response:
        """The page without the token in its address, which would stay in the history of the browser."""
        rest = QueryParams([(name, value) for name, value in request.query_params.multi_items() if name != "token"])
        # a path that begins with two slashes would be the name of another host
        url = "/" + quote(request.url.path.lstrip("/")) + (f"?{rest}" if rest else "")
        response = HTMLResponse(_GO_ON.format(url=escape(url)))
        # a proxy with TLS says so; who says it without one only keeps the cookie from himself
        secure = request.headers.get("x-forwarded-proto", "").lower() == "https"
        response.set_cookie(self.access.cookie_name, self.access.cookie_value, path="/", httponly=True, samesite="strict", secure=secure)
        response.headers["Cache-Control"] = "no-store"
        return response


def _refusal(request: Request, problem: ProblemError) -> Response:
    if problem.status == 401 and "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api"):
        return HTMLResponse(_ASK_FOR_TOKEN, 401, {"Cache-Control": "no-store", **problem.headers})
    return problem_response(problem, problem.status)


def _metrics(run: Any, name: str | None, hub: EventHub, threads: Threads) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(_request: Request) -> Response:
        text = await asyncio.get_running_loop().run_in_executor(threads.reading, metrics_text, run, name, lambda: hub.listeners)
        return Response(text, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})

    return endpoint


async def _healthz(_request: Request) -> Response:
    return PlainTextResponse("ok\n", headers={"Cache-Control": "no-store"})


def _on_error(hide: Callable[[str], str]) -> Callable[[Request, Exception], Awaitable[Response]]:
    """A mistake of the caller's that a route or the engine has found."""

    async def on_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, ClashError)
        return problem_response(error, error.status if isinstance(error, ProblemError) else 422, hide)

    return on_error


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = {404: "there is nothing at this address", 405: "the method is not allowed here"}.get(error.status_code, error.detail.lower())
    problem = ProblemError(error.status_code, what, f"{request.method} {request.url.path}", "GET /api/openapi.json lists what there is")
    problem.headers.update(error.headers or {})
    return problem_response(problem, error.status_code)


async def _on_failure(request: Request, error: Exception) -> Response:
    _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem_response(ProblemError(500, "the server failed", type(error).__name__, "the log of the run says more"), 500)
