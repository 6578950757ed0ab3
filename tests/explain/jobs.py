"""Fixture files: jobs and the expected text of their plans, so that a changed plan shows up in a diff.

    === the title of the job
    options {"workers": 5}
    statistics {"rates": {"R": 100}}
    stream R {"columns": {"a": "bigint"}, "window": "5 seconds"}
    query q1 R(a), S(a)
    why q1
    ---
    the expected text

A line that starts with spaces continues the line before it. With a line `why`, the text is what keeps that query expensive.
CLASH_REWRITE=1 rewrites the files with today's text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import clash
from clash.explain import explain_text
from clash.optimizer import Plan

FOLDER = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Job:
    file: Path
    title: str
    definition: str
    expected: str

    def plan(self) -> Plan:
        options: dict[str, Any] = {"time_limit": 60.0}
        queries: dict[str, str] = {}
        streams = []
        statistics = clash.Statistics()
        for line in self.definition.replace("\n ", " ").splitlines():
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
            elif word == "why":
                continue
            else:
                raise AssertionError(f"{self.file.name}: {line}")
        return clash.optimize(queries, statistics, streams=streams or None, **options)

    def text(self) -> str:
        plan = self.plan()
        asked = [line.partition(" ")[2] for line in self.definition.splitlines() if line.startswith("why ")]
        if asked:
            return plan.why(asked[0])
        return explain_text(plan, plan.topology, plan.compare(), seconds=False)


def read_jobs(file: Path) -> list[Job]:
    jobs = []
    for section in file.read_text().split("=== ")[1:]:
        head, _, expected = section.partition("\n---\n")
        title, _, definition = head.partition("\n")
        jobs.append(Job(file, title, definition, expected.strip("\n") + "\n"))
    return jobs


def rewrite(file: Path) -> None:
    sections = [f"=== {job.title}\n{job.definition}\n---\n{job.text()}" for job in read_jobs(file)]
    file.write_text("\n".join(sections))
