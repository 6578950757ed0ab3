"""Points at which a test can kill the process, in order to check recovery from the state that it leaves.

The environment variable CLASH_FAILPOINT is `NAME` (kill each time the point is reached) or `NAME@N` (only the N-th time in this process).
With the suffix `!raise` a RuntimeError is raised instead. With CLASH_FAILPOINT_FLAG=PATH this happens only if that file does not exist,
and the file is created just before: so it happens once, however often and in however many processes the point is reached.
"""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from types import MappingProxyType

DESCRIPTIONS = MappingProxyType(
    {
        "ingest-start": "an ingest task has started and has read nothing",
        "ingest-end": "an ingest task has sent all its blocks",
        "round-start": "a worker has started a round and has stored nothing",
        "round-stored": "a worker has written the containers of a round and has not probed",
        "round-results": "a worker has written the result files of a round and has not reported them",
        "round-end": "a worker has sent all its messages of a round",
        "before-record": "the coordinator has planned a batch and has not recorded it",
        "after-generation": "the coordinator has recorded a new generation and has not recorded the batch that starts it",
        "after-record": "the coordinator has recorded a batch and has not started its job",
        "before-projection": "tasks have staged joined rows, and Spark has computed no result of them",
        "projection-results": "a task has written results of joined rows and has not reported them",
        "after-projection": "Spark has staged the results of joined rows, and the batch is not committed",
        "before-manifest": "the coordinator has all reports of a batch and has not committed it",
        "after-manifest": "the coordinator has written the manifest: the batch is committed, and nothing is published",
        "after-publish": "the coordinator has published the result files of a committed batch",
        "before-handover": "a function sink is about to get the results of a committed batch",
        "after-handover": "a function sink has got its results, and that is not recorded",
        "before-transaction": "the results of a committed batch are about to be written to another system",
        "in-transaction": "another system has the results of a batch, and neither their number nor the commit",
        "after-transaction": "another system has committed the results of a batch, and that is not recorded",
        "before-outer-sink": "an outer query has computed a batch, and its sink has none of it",
        "after-outer-sink": "the sink of an outer query has a batch, and Spark has not recorded that",
        "after-table-files": "a refresh of a table has written the files of a version, and no batch joins it yet",
        "before-sources": "the Spark query is about to be started, and its offset log has no entry for new streams",
        "between-sources": "the offset log has new streams in one of the two entries that matter",
        "before-cleanup": "the coordinator is about to delete the files that no manifest lists",
        "after-cleanup": "the coordinator has deleted the files that no manifest lists",
    }
)
NAMES = frozenset(DESCRIPTIONS)

_REQUEST = re.compile(r"([a-z-]+)(?:@([1-9]\d*))?(!raise)?")
_reached: Counter[str] = Counter()  # how often this process has reached each point that was requested


def reach(name: str) -> None:
    """Mark a point of the program; it has no effect unless CLASH_FAILPOINT names it."""
    if name not in NAMES:
        raise AssertionError(f"not a fail point: {name}")
    request = os.environ.get("CLASH_FAILPOINT")
    if not request:
        return
    match = _REQUEST.fullmatch(request)
    if match is None or match[1] not in NAMES:
        raise AssertionError(f"not a fail point: CLASH_FAILPOINT={request}")
    if match[1] != name:
        return
    _reached[name] += 1
    if match[2] is not None and _reached[name] != int(match[2]):
        return
    flag = os.environ.get("CLASH_FAILPOINT_FLAG")
    if flag and not _create_flag(flag):
        return
    if match[3]:
        raise RuntimeError(f"fail point {name}")
    os.kill(os.getpid(), signal.SIGKILL)


def _create_flag(flag: str) -> bool:
    """Create the file; False if it exists already."""
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return False
    return True
