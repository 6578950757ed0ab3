"""How files of physical plans are named: after their content, so that equal plans are one file and a damaged one is noticed."""

from __future__ import annotations

import hashlib

FOLDER = "plans"


def plan_path(text: bytes) -> str:
    return f"{FOLDER}/{hashlib.sha256(text).hexdigest()[:16]}.json"
