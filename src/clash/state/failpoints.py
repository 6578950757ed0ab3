"""Places at which a test may kill the process, to see that what is left behind is recovered.

CLASH_FAILPOINT is `NAME` (each time it is reached) or `NAME@N` (only the N-th time in this process), with `!raise` behind it to raise
a RuntimeError instead of killing. With CLASH_FAILPOINT_FLAG=PATH it happens only if that file is not there yet, and the file is made
just before: so it happens once, whatever is started again and however many processes there are.
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
        "before-record": "the driver has planned a batch and not recorded it",
        "after-generation": "the driver has recorded a new generation and not the batch that starts it",
        "after-record": "the driver has recorded a batch and not started its job",
        "before-manifest": "the driver has all reports of a batch: not committed yet",
        "after-manifest": "the driver has written the manifest: committed, nothing published",
        "after-publish": "the driver has published the result files of a committed batch",
        "before-handover": "a function sink is about to get the results of a committed batch",
        "after-handover": "a function sink has got its results, which is not recorded yet",
        "before-sources": "the Spark query is about to be started, and its log not told of new streams",
        "between-sources": "Spark's log is told of a new stream in one of the two entries that count",
        "before-cleanup": "the driver is about to delete what no manifest names",
        "after-cleanup": "the driver has deleted what no manifest names",
    }
)
NAMES = frozenset(DESCRIPTIONS)

_REQUEST = re.compile(r"([a-z-]+)(?:@([1-9]\d*))?(!raise)?")
_reached: Counter[str] = Counter()


def reach(name: str) -> None:
    """Does nothing outside tests."""
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
    if flag and not _first(flag):
        return
    if match[3]:
        raise RuntimeError(f"fail point {name}")
    os.kill(os.getpid(), signal.SIGKILL)


def _first(flag: str) -> bool:
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return False
    return True
