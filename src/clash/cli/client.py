"""Requests to a run. No proxy is used: the token goes to the run alone."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from clash.errors import ClashError, OptionError

TIMEOUT = 90.0  # seconds: a change is waited for up to 60
_MAX_ANSWER = 64 * 1024 * 1024


class RunError(ClashError):
    """What a run answers to a request that it refuses."""


class _NoRedirect(HTTPRedirectHandler):
    """A redirect would send the token elsewhere."""

    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        return None


class Client:
    def __init__(self, address: str, token: str) -> None:
        self.address, self._token = address.rstrip("/"), token
        self._opener = build_opener(ProxyHandler({}), _NoRedirect())

    def get(self, path: str) -> Any:
        return self._ask("GET", path)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        return self._ask(method, path, body)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            request = Request(f"{self.address}{path}", data, headers, method=method)
            with self._opener.open(request, timeout=TIMEOUT) as response:
                return json.loads(response.read(_MAX_ANSWER))
        except HTTPError as error:
            raise _problem(error) from None
        except (URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            hint = "the run may have ended: start it with `clash run JOB`"
            raise OptionError("the run does not answer", f"{self.address}: {reason}", hint) from None


def _problem(error: HTTPError) -> ClashError:
    try:
        body = json.loads(error.read(1_000_000))
        return RunError(str(body["what"]), str(body.get("detail", "")), str(body.get("hint", "")))
    except (ValueError, KeyError, TypeError, OSError):
        return RunError("the run refuses the request", f"{error.code} {error.reason}", "is this the address of a run?")


def escape(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")
