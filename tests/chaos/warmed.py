"""Imported by the process that programs are forked from: everything is imported and has been used once, so that a start is quick.

Arrow's threads do not survive a fork; Arrow starts them again in the child.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ..oracle.starts import quick_planner
from .cases import drawn_case
from .inprocess import Program
from .starts import Start


def _use_once() -> None:
    root = Path(tempfile.mkdtemp(prefix="chaos-warm-"))
    (root / "disk").mkdir()
    case = drawn_case(5)
    with quick_planner():
        for fed in (2, len(case.batches)):
            Program(Start(case, root / "disk", fed, tuple(case.by_name))).run()
    shutil.rmtree(root)


_use_once()
