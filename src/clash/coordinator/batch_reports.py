"""What the tasks of a batch have reported: all that the driver learns of a batch, in one place.

Invariant: the reports of every round of every worker are there, and of rounds they are in one order, whichever task was done first: what
a manifest says does not depend on that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from clash.protocol.batch import Work
from clash.protocol.messages import to_json as parsed

Report = Mapping[str, Any]


@dataclass(frozen=True)
class Reports:
    all: tuple[Report, ...]
    ingested: tuple[Report, ...]
    rounds: tuple[Report, ...]

    @staticmethod
    def of(work: Work, payloads: Sequence[bytes | pa.Buffer]) -> Reports:
        found: list[Report] = [parsed(payload) for payload in payloads]
        ingested = [report for report in found if report["kind"] == "ingest"]
        rounds = sorted((report for report in found if report["kind"] == "round"), key=lambda report: (report["round"], report["worker"]))
        if len(rounds) != work.rounds * work.workers:
            raise AssertionError(f"{len(rounds)} reports of {work.rounds} rounds of {work.workers} workers")
        return Reports(tuple(found), tuple(ingested), tuple(rounds))

    @property
    def files(self) -> tuple[Report, ...]:
        """Of results and of late rows."""
        return tuple(file for report in self.all for file in report.get("files", ()))

    @property
    def removed(self) -> list[str]:
        """Containers that were merged away, also those that an earlier round of the batch had written."""
        return [path for report in self.rounds for path in report["removed"]]

    @property
    def numbers(self) -> int:
        """How many arrival numbers the partition with most of them took."""
        return max((report["numbers"] for report in self.ingested), default=0)

    @property
    def highs(self) -> dict[str, int]:
        """The largest event time, by stream."""
        found: dict[str, int] = {}
        for report in self.ingested:
            for name, tau in report["taus"].items():
                found[name] = max(tau, found.get(name, tau))
        return found

    def told(self) -> dict[str, Any]:
        """Their sums, as the manifest keeps them."""
        counts: Counter[str] = Counter()
        for file in self.files:
            counts[file["destination"]] += file["rows"]
        seconds: Counter[str] = Counter()
        for report in self.all:
            seconds.update(report["seconds"])
        rows: Counter[str] = Counter()
        late: Counter[str] = Counter()
        for report in self.ingested:
            rows.update(report["rows"])
            late.update(report["late"])
        return {"counts": dict(counts), "input": dict(rows), "late": dict(late), "seconds": {k: round(v, 6) for k, v in seconds.items()}}
