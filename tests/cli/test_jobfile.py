"""Job files: sections, statistics, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clash.cli.jobfile import Job, merge, parse_assignments, parse_job, read_job
from clash.errors import ClashError


def test_sections_in_order_without_the_semicolon() -> None:
    job = parse_job("-- a job\n\n-- statistics: shop.json\n-- name: b\nSELECT 1\n  FROM r;\n\n--NAME:a\nR(a), S(a)\n", "job.sql")
    assert job == Job({"b": "SELECT 1\n  FROM r", "a": "R(a), S(a)"}, Path("shop.json"))
    assert list(job.queries) == ["b", "a"]


def test_statistics_count_from_the_files_own_folder(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text("\ufeff-- statistics: s/shop.json\n-- name: q\nR(a)", encoding="utf-8")
    assert read_job(tmp_path / "job.sql") == Job({"q": "R(a)"}, tmp_path / "s" / "shop.json")


def test_comments_belong_to_their_query() -> None:
    assert parse_job("-- name: q\n-- why\nR(a)", "f").queries == {"q": "-- why\nR(a)"}


@pytest.mark.parametrize(
    ("text", "what", "detail"),
    [
        ("SELECT 1", "a query without a name", "f, line 1: SELECT 1"),
        ("", "no query in the job file", "f"),
        ("-- only words", "no query in the job file", "f"),
        ("-- name: q\n", "an empty query", "q, f, line 1"),
        ("-- name: q\n-- nothing but this\n;", "an empty query", "q, f, line 1"),
        ("-- name:\nR(a)", "nothing after `name:`", "f, line 1"),
        ("-- name: q\nR(a)\n-- name: q\nS(a)", "two queries of one name", "q, f, line 3; the first is in line 1"),
        ("-- statistics: a\n-- statistics: b", "two files of statistics", "f, line 2: b"),
    ],
)
def test_refused(text: str, what: str, detail: str) -> None:
    with pytest.raises(ClashError) as caught:
        parse_job(text, "f")
    assert (caught.value.what, caught.value.detail) == (what, detail)
    assert caught.value.hint


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing.sql", tmp_path / "binary", tmp_path):
        with pytest.raises(ClashError, match="cannot be read"):
            read_job(path)


def test_views() -> None:
    text = (
        "CREATE VIEW big AS\n  SELECT a FROM R -- all\n  WHERE b > 1;\n-- name: q\nSELECT big.a\nFROM big;\n"
        "create or replace temporary view v as select a from big;\n-- name: p\nSELECT a FROM v\n"
    )
    job = parse_job(text, "f")
    big = "`big` AS (SELECT a FROM R WHERE b > 1)"
    assert job.queries == {"q": f"WITH {big} SELECT big.a\nFROM big", "p": f"WITH {big}, `v` AS (select a from big) SELECT a FROM v"}
    assert job.lines == {"q": 5, "p": 9}
    with pytest.raises(ClashError, match="two views have one name"):
        parse_job("CREATE VIEW v AS SELECT 1;\nCREATE VIEW V AS SELECT 2;\n-- name: q\nSELECT a FROM R", "f")
    with pytest.raises(ClashError, match="a view is a SELECT"):
        parse_job("CREATE VIEW v AS R(a);\n-- name: q\nSELECT a FROM R", "f")


def test_assignments_split_at_the_first_equals_sign() -> None:
    assert parse_assignments(["q1 = SELECT * FROM r JOIN s ON r.a = s.a", "q2=R(a)"]) == {
        "q1": "SELECT * FROM r JOIN s ON r.a = s.a",
        "q2": "R(a)",
    }


@pytest.mark.parametrize("text", ["", "R(a)", "SELECT * FROM r JOIN s ON r.a = s.a", "=R(a)"])
def test_assignments_need_a_name(text: str) -> None:
    with pytest.raises(ClashError, match="a query without a name"):
        parse_assignments([text])


def test_one_name_twice_is_refused_wherever_it_comes_from() -> None:
    with pytest.raises(ClashError, match="two queries of one name"):
        parse_assignments(["q=R(a)", "q=S(a)"])
    with pytest.raises(ClashError, match="two queries of one name"):
        merge({"q": "R(a)"}, {"q": "S(a)"})


@given(st.text(alphabet=st.sampled_from("-: \n;aqnamestic=\ufeff\t")) | st.text())
def test_any_text_is_a_job_or_a_clear_refusal(text: str) -> None:
    try:
        job = parse_job(text, "f")
    except ClashError as error:
        assert error.what
        assert error.hint
    else:
        assert all(query.strip() for query in job.queries.values())
