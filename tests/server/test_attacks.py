"""Attacks on the server: generated requests, slow clients, more event streams than there are places."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import httpx2 as httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient
from tests.server.conftest import TOKEN
from tests.server.fake_run import FakeRun

from clash.server import app, patience, serve
from clash.server.access import Access
from clash.server.limits import MAX_CONNECTIONS, MAX_STREAMS, Bucket
from clash.server.openapi import document
from clash.server.problems import ProblemError
from clash.server.serve import Server
from clash.server.threads import Threads


def _without_streams() -> dict[str, Any]:
    described = document()
    del described["paths"]["/api/events"]  # which never ends
    return described


# a request may be wrong in several ways at once, and be refused for the size of its body before the rest of it is looked at
_REFUSALS = ["400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "428", "429"]
_CONFIG = schemathesis.Config.from_dict({"checks": {"negative_data_rejection": {"expected-statuses": _REFUSALS}}})
schema = schemathesis.openapi.from_dict(_without_streams(), config=_CONFIG)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """One server for all generated requests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "CHANGES", (1e9, 1e9))
        patch.setattr(app, "READS", (1e9, 1e9))
        patch.setattr(app, "REFUSALS", (1e9, 1e9))
        started = serve.serve(FakeRun(), "127.0.0.1:0", token=TOKEN)
        yield started.address
        started.stop()


@schema.parametrize()
@settings(max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_generated_requests(case: Any, address: str) -> None:
    """No request ends in a failure of the server's, and every answer is what the document says. A text that is no query is refused."""
    case.call_and_validate(
        base_url=address, headers={"Authorization": f"Bearer {TOKEN}"}, excluded_checks=[positive_data_acceptance], timeout=60
    )


def _open(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.access.port), timeout=30)


def _is_closed(client: socket.socket) -> bool:
    """Waits for the end of the connection."""
    with client, suppress(ConnectionResetError):
        while client.recv(1000):
            pass
    return True


def test_a_client_that_sends_its_head_slowly_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "HEAD_SECONDS", 0.2)
    server = serve.serve(FakeRun(), "127.0.0.1:0", token=TOKEN)
    try:
        silent, slow = _open(server), _open(server)
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        assert _is_closed(silent)
        assert _is_closed(slow)
        again = _open(server)  # the second head on one connection is slow
        again.sendall(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{server.access.port}\r\n\r\n".encode())
        assert b"200 OK" in again.recv(1000)
        again.sendall(b"GET /heal")
        assert _is_closed(again)
    finally:
        server.stop()


def test_a_client_that_sends_its_body_slowly_is_let_go(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clash.server.limits.BODY_SECONDS", 0.2)
    client = _open(server)
    head = f"POST /api/queries HTTP/1.1\r\nHost: 127.0.0.1:{server.access.port}\r\nAuthorization: Bearer {TOKEN}\r\n"
    client.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode())
    answer = client.recv(100_000)
    assert b"408" in answer.split(b"\r\n")[0]
    assert _is_closed(client)


def test_a_client_that_does_not_receive_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of events, and of any other answer: it would keep a place for ever."""
    monkeypatch.setattr(patience, "SEND_SECONDS", 0.2)
    run = FakeRun()
    run.queries = {"paid": "x" * 16_000_000}  # more than fits between the two
    server = serve.serve(run, "127.0.0.1:0", token=TOKEN)
    try:
        for path in ("/api/queries", "/api/events"):
            with _open(server) as client:
                head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.access.port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
                client.sendall(head.encode())
                assert client.recv(12).endswith(b"200")
                _wait_until(lambda: len(_connections(server)) == 0)
        _wait_until(lambda: server._server._hub.listeners == 0)
    finally:
        server.stop()


def _connections(server: Server) -> Any:
    return server._server.server_state.connections


def _wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("it did not become true")


def test_a_thousand_event_streams(server: Server, http: httpx.Client) -> None:
    request = f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{server.access.port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    clients, codes = [], []
    try:
        for number in range(1000):
            client = _open(server)
            client.sendall(request)
            codes.append(client.recv(12)[9:12])
            if codes[-1] == b"200":
                clients.append(client)
            else:
                client.close()
            if number % 100 == 99:
                assert http.get("/healthz").status_code == 200
        assert codes.count(b"200") == MAX_STREAMS
        assert set(codes) <= {b"200", b"503", b"429"}
    finally:
        for client in clients:
            client.close()
    for _ in range(100):  # places become free when clients go
        time.sleep(0.1)
        with http.stream("GET", "/api/events") as response:
            if response.status_code == 200:
                return
    pytest.fail("no place became free")


def test_many_connections_are_refused_not_served_late(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "HEAD_SECONDS", 600)  # they are silent, and stay
    opened = [_open(server) for _ in range(MAX_CONNECTIONS - 2)]
    try:
        _wait_until(lambda: len(_connections(server)) == MAX_CONNECTIONS - 2)
        assert httpx.get(f"{server.address}/healthz", trust_env=False).status_code == 200
        _wait_until(lambda: len(_connections(server)) == MAX_CONNECTIONS - 2)
        opened.append(_open(server))
        _wait_until(lambda: len(_connections(server)) == MAX_CONNECTIONS - 1)
        for _ in range(3):
            assert httpx.get(f"{server.address}/healthz", trust_env=False).status_code == 503
            _wait_until(lambda: len(_connections(server)) == MAX_CONNECTIONS - 1)
    finally:
        for client in opened:
            client.close()
    _wait_until(lambda: len(_connections(server)) == 0)
    assert httpx.get(f"{server.address}/healthz", trust_env=False).status_code == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00" * 100,
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"A" * 100_000,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_http(server: Server, http: httpx.Client, raw: bytes) -> None:
    with _open(server) as client:
        client.sendall(raw)
        client.shutdown(socket.SHUT_WR)
        first = client.recv(1000)
        assert not first or b" 4" in first.split(b"\r\n")[0]
    assert http.get("/api/status").status_code == 200


def test_guessing_tokens_is_slowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "REFUSALS", (1e-6, 5))
    with closing(Threads()) as threads:
        application = app.create_app(FakeRun(), Access(TOKEN, "127.0.0.1", 4242), threads)
        client = TestClient(application, base_url="http://127.0.0.1:4242")
        codes = [client.get("/api/status", headers={"Authorization": f"Bearer {number}"}).status_code for number in range(10)]
    assert codes == [401] * 5 + [429] * 5


def test_a_rate_is_kept_over_time() -> None:
    now = 0.0
    bucket = Bucket(2, 3, lambda: now)
    taken = 0
    for step in range(100):
        now = step / 10
        with suppress(ProblemError):
            bucket.take()
            taken += 1
    assert taken == 22  # three at once, and two in each of 9.9 seconds
