"""Who may ask: a token, as Jupyter has it, and the checks that keep web pages of others from asking in a user's name.

The token is made at the start and is part of the printed address. The page exchanges it for a cookie; programs send it as
`Authorization: Bearer`. A request is answered only if

- its `Host` is one that this server is reached under: a name of somebody else's that resolves to this machine (DNS rebinding) is refused;
- its `Origin`, if it has one, is this server: no page of another site can send a request with a user's cookie;
- it has the token or the cookie, compared in constant time. `/healthz` alone does without.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from clash.server.problems import ProblemError

_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_BEARER = "bearer "


def new_token() -> str:
    return secrets.token_urlsafe(24)


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("db")
    (True, True, True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Access:
    """What requests to a server at this address have to bring along."""

    token: str
    host: str
    port: int
    names: tuple[str, ...] = ()
    """Further names that the server is reached under."""

    @property
    def cookie_name(self) -> str:
        """Cookies are shared by all ports of a host: several runs on one machine need several names."""
        return f"clash-{self.port}"

    @property
    def cookie_value(self) -> str:
        """Not the token itself: what a browser stores cannot be sent as `Authorization`."""
        return hmac.new(self.token.encode(), b"cookie of the page", hashlib.sha256).hexdigest()

    def check_origin(self, headers: Headers) -> None:
        """Raises if the request was meant for another server, or sent by a page of one."""
        host = headers.get("host", "")
        if not self._is_own(host):
            raise ProblemError(403, "the request is for another host", f"Host: {host}", "open the address that the run has printed")
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
            raise ProblemError(403, "the request comes from another site", f"Origin: {origin}", "open the address that the run has printed")

    def _is_own(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host}")
            name, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            return False
        if parts.path or parts.query or parts.fragment or "@" in host:
            return False
        if port is not None and port != self.port and name in _LOCAL_NAMES and is_loopback(self.host):
            return False
        if name in self.names or name == self.host.lower():
            return True
        if is_loopback(self.host):
            return name in _LOCAL_NAMES
        return name in (socket.gethostname().lower(), socket.getfqdn().lower(), *_LOCAL_NAMES) or _is_address(name)

    def check_token(self, headers: Headers) -> None:
        """Raises unless the request has the token, or the cookie that the page got for it."""
        authorization = headers.get("authorization", "")
        if authorization.lower().startswith(_BEARER) and self.is_token(authorization[len(_BEARER) :].strip()):
            return
        cookie = _cookie(headers.get("cookie", ""), self.cookie_name)
        if cookie is not None and _equal(cookie, self.cookie_value):
            return
        raise ProblemError(
            401,
            "the token is missing or wrong",
            "this server answers only requests with its token",
            "open the address that the run has printed, or send the token as Authorization: Bearer",
            {"WWW-Authenticate": "Bearer"},
        )

    def is_token(self, text: str) -> bool:
        return _equal(text, self.token)


def _equal(given: str, expected: str) -> bool:
    """In constant time; as bytes, because `compare_digest` takes no other letters than ASCII."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def _is_address(name: str) -> bool:
    """Whether a host is written as an address: one that needs no name cannot be bound to another."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _cookie(header: str, name: str) -> str | None:
    try:
        morsel = SimpleCookie(header).get(name)
    except CookieError:
        return None
    return None if morsel is None else morsel.value
