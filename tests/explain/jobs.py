"""Fixture files: jobs and the text that explains their plans, so that a changed plan shows in a diff.

    === what the job shows
    options {"workers": 5}
    statistics {"rates": {"R": 100}}
    stream R {"columns": {"a": "bigint"}, "window": "5 seconds"}
    query q1 R(a), S(a)
    ---
    the expected text

A line that starts with spaces goes on with the line before. CLASH_REWRITE=1 writes what comes out today.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import clash
from clash.explain import explain_text
from clash.planner.plan import Plan

FOLDER = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Job:
    file: Path
    title: str
    asked: str
    expected: str

    def plan(self) -> Plan:
        options: dict[str, Any] = {"time_limit": 60.0}
        queries: dict[str, str] = {}
        streams = []
        statistics = clash.Statistics()
        for line in self.asked.replace("\n ", " ").splitlines():
            word, _, rest = line.partition(" ")
            name, _, text = rest.partition(" ")
            if word == "options":
                options |= json.loads(rest)
            elif word == "statistics":
                statistics = clash.Statistics.from_json(json.loads(rest))
            elif word == "stream":
                declared = json.loads(text)
                streams.append(clash.Stream.of(name, declared.pop("columns"), **declared))
            elif word == "query":
                queries[name] = text
            else:
                raise AssertionError(f"{self.file.name}: {line}")
        return clash.optimize(queries, statistics, streams=streams or None, **options)

    def text(self) -> str:
        return explain_text(self.plan(), seconds=False)


def read_jobs(file: Path) -> list[Job]:
    jobs = []
    for section in file.read_text().split("=== ")[1:]:
        head, _, expected = section.partition("\n---\n")
        title, _, asked = head.partition("\n")
        jobs.append(Job(file, title, asked, expected.strip("\n") + "\n"))
    return jobs


def rewrite(file: Path) -> None:
    sections = [f"=== {job.title}\n{job.asked}\n---\n{job.text()}" for job in read_jobs(file)]
    file.write_text("\n".join(sections))
