"""Who is answered: token, cookie, host and origin."""

from __future__ import annotations

from contextlib import closing

import pytest
from starlette.testclient import TestClient
from tests.server.conftest import TOKEN
from tests.server.fake_run import FakeRun

from clash.errors import OptionError
from clash.server.access import Access
from clash.server.app import create_app
from clash.server.serve import serve
from clash.server.threads import Threads

GUARDED = ["/", "/index.html", "/api/status", "/api/topology", "/api/queries", "/api/generations", "/api/events", "/nothing"]


@pytest.mark.parametrize("path", GUARDED)
def test_without_a_token_nothing_is_answered(anonymous: TestClient, path: str) -> None:
    response = anonymous.get(path)
    assert response.status_code == 401
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["what"] == "the token is missing or wrong"
    assert response.headers["www-authenticate"] == "Bearer"


def test_health_needs_no_token(anonymous: TestClient) -> None:
    assert anonymous.get("/healthz").text == "ok\n"


@pytest.mark.parametrize("token", ["", "x", TOKEN[:-1], TOKEN + "x", "ünïcode", " "])
def test_a_wrong_token(anonymous: TestClient, token: str) -> None:
    assert anonymous.get("/api/status", headers={"Authorization": f"Bearer {token}".encode()}).status_code == 401
    assert anonymous.get("/", params={"token": token}).status_code == 401
    assert anonymous.get("/api/status", headers={"Cookie": f"clash-4242={token}".encode()}).status_code == 401


def test_the_token_itself_is_not_the_cookie(anonymous: TestClient) -> None:
    assert anonymous.get("/api/status", headers={"Cookie": f"clash-4242={TOKEN}"}).status_code == 401


def test_the_page_exchanges_the_token_for_a_cookie(anonymous: TestClient) -> None:
    response = anonymous.get("/", params={"token": TOKEN, "query": "paid"})
    assert response.status_code == 200
    assert '<meta http-equiv="refresh" content="0; url=/?query=paid">' in response.text
    assert TOKEN not in response.text
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert "Secure" not in cookie
    assert anonymous.get("/").status_code == 200
    assert anonymous.get("/api/status").status_code == 200


def test_the_page_that_goes_on_stays_on_this_host_and_has_no_markup_of_others(anonymous: TestClient) -> None:
    response = anonymous.get("http://127.0.0.1:4242//evil.example/x", params={"token": TOKEN})
    assert "url=/evil.example/x" in response.text
    response = anonymous.get("http://127.0.0.1:4242/'\"><script>", params={"token": TOKEN, "x": "'\"><script>"})
    assert "<script>" not in response.text
    assert response.text.count('"') == anonymous.get("/", params={"token": TOKEN}).text.count('"')


def test_behind_a_proxy_with_tls_the_cookie_is_sent_with_tls_alone(anonymous: TestClient) -> None:
    response = anonymous.get("/", params={"token": TOKEN}, headers={"X-Forwarded-Proto": "https"})
    assert "Secure" in response.headers["set-cookie"]


def test_the_cookie_of_another_port_is_not_taken(anonymous: TestClient) -> None:
    """Browsers send a cookie to all ports of a host, so that each run has a name of its own."""
    value = Access(TOKEN, "127.0.0.1", 4243).cookie_value
    assert anonymous.get("/api/status", headers={"Cookie": f"clash-4243={value}"}).status_code == 401
    assert anonymous.get("/api/status", headers={"Cookie": f"clash-4243=other; clash-4242={value}"}).status_code == 200


def test_the_api_takes_no_token_in_its_address(anonymous: TestClient) -> None:
    assert anonymous.get("/api/status", params={"token": TOKEN}).status_code == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:4242", "127.0.0.1:9", "user@127.0.0.1:4242", "", "[::1", "127.0.0.1/x"]
)
def test_another_host_is_refused(client: TestClient, host: str) -> None:
    response = client.get("/api/status", headers={"Host": host})
    assert response.status_code == 403
    assert client.get("/healthz", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1:4242", "localhost:4242", "[::1]:4242", "LOCALHOST:4242"])
def test_own_hosts(client: TestClient, host: str) -> None:
    assert client.get("/api/status", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9", "http://localhost:4242", "file://"])
def test_another_origin_is_refused(client: TestClient, origin: str) -> None:
    assert client.get("/api/status", headers={"Origin": origin}).status_code == 403


def test_the_own_origin(client: TestClient) -> None:
    response = client.get("/api/status", headers={"Origin": "http://127.0.0.1:4242"})
    assert response.status_code == 200
    assert not any(name.startswith("access-control") for name in response.headers)


def test_a_server_for_other_machines_is_reached_by_address_and_by_its_names() -> None:
    with closing(Threads()) as threads:
        app = create_app(FakeRun(), Access(TOKEN, "0.0.0.0", 4242, ("clash.internal",)), threads)
        client = TestClient(app, base_url="http://10.0.0.7:4242", headers={"Authorization": f"Bearer {TOKEN}"})
        assert client.get("/api/status").status_code == 200
        assert client.get("/api/status", headers={"Host": "clash.internal"}).status_code == 200
        assert client.get("/api/status", headers={"Host": "evil.example"}).status_code == 403


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "db.internal:4242"])
def test_an_address_that_others_reach_needs_a_token(address: str) -> None:
    with pytest.raises(OptionError, match="needs a token") as caught:
        serve(FakeRun(), address)
    assert "--token-file" in caught.value.hint


def test_a_short_token_is_refused() -> None:
    with pytest.raises(OptionError, match="too short"):
        serve(FakeRun(), "127.0.0.1:0", token="secret")


@pytest.mark.parametrize("address", ["", "nonsense", "127.0.0.1:", "127.0.0.1:70000", "http://127.0.0.1:1", "127.0.0.1:-1", "a@b:1"])
def test_bad_addresses(address: str) -> None:
    with pytest.raises(OptionError, match="not an address"):
        serve(FakeRun(), address)


def test_browsers_are_told_to_be_careful(client: TestClient) -> None:
    for path in ("/", "/api/status", "/nothing"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "path", ["/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/static/../../app.py", "//etc/passwd", "/%00", "/" + "a" * 5000]
)
def test_only_static_files_are_served(client: TestClient, path: str) -> None:
    response = client.get(f"http://127.0.0.1:4242{path}")
    assert response.status_code in (404, 405)
    assert response.headers["content-type"] == "application/problem+json"
