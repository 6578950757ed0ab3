from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient
from tests.server.fake_run import FakeRun

from clash.server.access import Access
from clash.server.app import create_app
from clash.server.serve import Server, serve
from clash.server.threads import Threads

TOKEN = "a-token-of-the-tests-0123456789"


@pytest.fixture
def run() -> FakeRun:
    return FakeRun()


@pytest.fixture
def anonymous(run: FakeRun) -> Iterator[TestClient]:
    """A client without a token."""
    with closing(Threads()) as threads:
        app = create_app(run, Access(TOKEN, "127.0.0.1", 4242), threads)
        yield TestClient(app, base_url="http://127.0.0.1:4242", raise_server_exceptions=False, follow_redirects=False)


@pytest.fixture
def client(anonymous: TestClient) -> TestClient:
    anonymous.headers["Authorization"] = f"Bearer {TOKEN}"
    return anonymous


@pytest.fixture
def server(run: FakeRun) -> Iterator[Server]:
    """A real server on a port of its own."""
    started = serve(run, "127.0.0.1:0", token=TOKEN)
    yield started
    started.stop()


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.address, headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False) as client:
        yield client
