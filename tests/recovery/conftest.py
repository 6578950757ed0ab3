"""Java for the processes started here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def java() -> None:
    """`make` sets it; so does this, for a bare pytest."""
    if "JAVA_HOME" not in os.environ:
        script = Path(__file__).parents[2] / "scripts" / "java.sh"
        found = subprocess.run([script, "find"], capture_output=True, text=True, check=False).stdout.strip()
        if found:
            os.environ["JAVA_HOME"] = found
