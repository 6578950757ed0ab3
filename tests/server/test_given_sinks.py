"""What sinks a request may name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clash.job import model
from clash.server.given_sinks import check_given_sink
from clash.server.problems import ProblemError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    job = tmp_path / "job"
    for name in ("out", "state", "in"):
        (job / name).mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (job / "link").symlink_to(tmp_path / "elsewhere")
    return job


def check(sink: dict[str, Any], folder: Path) -> None:
    check_given_sink(model.Sink.model_validate(sink), folder, str(folder / "state"))


@pytest.mark.parametrize(
    "sink",
    [
        {"parquet": "out/paid"},
        {"parquet": {"path": "./new/place"}},
        {"parquet": "out/../other"},
        {"kafka": "paid"},
        {"kafka": {"topic": "paid", "key": "id", "create": 3, "options": {"compression.type": "zstd", "linger.ms": 5}}},
        {"postgres": "paid"},
        {"postgres": {"table": "shop.paid", "create": True, "options": {"connect_timeout": 5}}},
        {"console": {}},
        {"memory": {}},
    ],
)
def test_what_is_taken(sink: dict[str, Any], folder: Path) -> None:
    check(sink, folder)


@pytest.mark.parametrize(
    ("sink", "what"),
    [
        ({"parquet": "/etc/x"}, "below that of the job"),
        ({"parquet": "~/x"}, "below that of the job"),
        ({"parquet": "../elsewhere"}, "below that of the job"),
        ({"parquet": "out/../../elsewhere/x"}, "below that of the job"),
        ({"parquet": "link/x"}, "below that of the job"),
        ({"parquet": "s3://bucket/x"}, "below that of the job"),
        ({"parquet": "file:/tmp/x"}, "below that of the job"),
        ({"parquet": {"path": "hdfs://host/x"}}, "below that of the job"),
        ({"parquet": "."}, "below that of the job"),
        ({"parquet": "x\0y"}, "below that of the job"),
        ({"parquet": "state"}, "into the checkpoint"),
        ({"parquet": "state/clash/x"}, "into the checkpoint"),
        ({"kafka": {"topic": "t", "servers": "evil.example:9092"}}, "another server"),
        ({"kafka": {"topic": "t", "options": {"plugin.library.paths": "/tmp/evil.so"}}}, "few options"),
        ({"kafka": {"topic": "t", "options": {"ssl.ca.location": "/etc/shadow"}}}, "few options"),
        ({"kafka": {"topic": "t", "options": {"sasl.oauthbearer.token.endpoint.url": "http://169.254.169.254"}}}, "few options"),
        ({"postgres": {"table": "t", "dsn": "host=evil.example"}}, "another server"),
        ({"postgres": {"table": "t", "options": {"passfile": "/home/other/.pgpass"}}}, "few options"),
        ({"postgres": {"table": "t", "options": {"sslkey": "/etc/x"}}}, "few options"),
        ({"postgres": {"table": "t", "options": {"host": "evil.example"}}}, "few options"),
    ],
)
def test_what_is_refused(sink: dict[str, Any], what: str, folder: Path) -> None:
    with pytest.raises(ProblemError, match=what) as caught:
        check(sink, folder)
    assert caught.value.status == 422
    assert caught.value.hint
