"""The planner's fixtures: the text of every job's plan is the one on file."""

from __future__ import annotations

import os

import pytest

from .jobs import FOLDER, Job, read_jobs, rewrite

FILES = sorted(FOLDER.glob("*.txt"))
if os.environ.get("CLASH_REWRITE") == "1":
    for file in FILES:
        rewrite(file)
JOBS = [job for file in FILES for job in read_jobs(file)]


@pytest.mark.parametrize("job", JOBS, ids=[f"{job.file.stem}: {job.title}" for job in JOBS])
def test_plan(job: Job) -> None:
    assert job.text() == job.expected, "a plan has changed: rewrite the file with CLASH_REWRITE=1 and review the diff"
