"""Every code block of the documentation runs: Python over a small shop on Spark, SQL through the parser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clash

from .pages import blocks, pages_with
from .shop import Shop

# pages whose programs another test runs as a whole, in an environment of their own
ELSEWHERE = {"operations.md": "tests/operations/test_page.py"}
STREAMS = {
    "orders": "id long, customer long, details string, token string, address struct<country: string>, ts timestamp",
    "payments": "id long, method string, token_hash string, country string, amount double, ts timestamp",
    "R": "a int, x int, name string, limit int, kind string, ref int, ts timestamp",
    "S": "a int, b int, price int, ts timestamp",
    "T": "b int, c int, ts timestamp",
}


@pytest.fixture
def shop(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.chdir(tmp_path)
    made = Shop(spark, tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("page", [page for page in pages_with("python") if page.name not in ELSEWHERE], ids=lambda page: page.stem)
def test_python(page: Path, shop: Shop, request: pytest.FixtureRequest) -> None:
    addresses = _addresses(page.stem, request)
    scope = shop.scope()
    for block in blocks(page, "python"):
        text = shop.placed(block.text, addresses)
        code = compile(text, f"{block.page}, block of line {block.line}", "exec")
        if block.not_run is None:
            shop.prepare(text, scope)
            exec(code, scope)
            shop.finish(scope)


def _addresses(page: str, request: pytest.FixtureRequest) -> dict[str, str]:
    if page == "kafka":
        server = request.getfixturevalue("kafka_server")
        for topic in ("orders", "payments", "paid"):
            server.create(topic)
        return {"host:9092": server.servers}
    if page == "sinks":
        server = request.getfixturevalue("postgres_server")
        server.query("CREATE SCHEMA IF NOT EXISTS shop")
        return {"host=db dbname=shop user=clash": server.dsn}
    return {}


@pytest.mark.parametrize("page", pages_with("sql"), ids=lambda page: page.stem)
def test_sql(page: Path, spark: Any, tmp_path: Path) -> None:
    engine = clash.Engine(spark, checkpoint=f"{tmp_path}/checkpoint")
    for name, schema in STREAMS.items():
        (tmp_path / name).mkdir()
        engine.stream(name, spark.readStream.schema(schema).parquet(f"{tmp_path}/{name}"), time="ts", window="1 hour", lateness="1 minute")
    for block in blocks(page, "sql"):
        for number, query in enumerate(_queries(block.text)):
            engine.query(f"line_{block.line}_{number}", query)


def _queries(text: str) -> list[str]:
    """The queries of a block: after an empty line begins another one, and with a line SELECT where there is no WITH."""
    parts = re.split(r"\n\s*\n", re.sub(r"--.*", "", text).strip())
    return [query for part in parts for query in ([part] if part.strip().startswith("WITH") else re.split(r"\n(?=SELECT)", part.strip()))]
