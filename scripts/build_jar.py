"""Builds `src/clash/spark/clash-spark.jar` from the sources under `java`, with the `javac` of a JDK 17 and the jars of PySpark.

    scripts/run.sh python scripts/build_jar.py

The jar is reproducible: its entries are sorted, and have no time stamps. A test builds it anew and compares.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

ROOT = Path(__file__).parents[1]
JAR = ROOT / "src" / "clash" / "spark" / "clash-spark.jar"
_YEAR = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can hold


def build(target: Path, javac: str = "javac") -> None:
    """Compiles all sources, and writes the jar."""
    jars = Path(pyspark.__file__).parent / "jars"
    with TemporaryDirectory(prefix="clash-jar-") as folder:
        sources = [str(file) for file in sorted((ROOT / "java").rglob("*.java"))]
        command = [javac, "--release", "17", "-g:none", "-proc:none", "-nowarn", "-cp", f"{jars}/*", "-d", folder, *sources]
        subprocess.run(command, check=True, capture_output=True)
        with zipfile.ZipFile(target, "w") as jar:
            for file in sorted(Path(folder).rglob("*.class")):
                entry = zipfile.ZipInfo(file.relative_to(folder).as_posix(), _YEAR)
                entry.external_attr = 0o644 << 16
                jar.writestr(entry, file.read_bytes(), zipfile.ZIP_STORED)


if __name__ == "__main__":
    build(JAR, *sys.argv[1:])
