"""Sends the clash package to executors on other machines, where its dependencies must be installed."""

from __future__ import annotations

import zipfile
from importlib import resources
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from clash.spark.configure import is_local

_ARCHIVE = "clash_package.zip"


def ship_package(context: Any) -> None:
    """Ships the package once per Spark context. On one machine Python workers import what the driver imports, and nothing is shipped."""
    if is_local(context.master) or _ARCHIVE in context._python_includes:
        return
    context.addPyFile(str(_write_archive(Path(mkdtemp(prefix="clash-")) / _ARCHIVE)))


def _write_archive(target: Path) -> Path:
    with resources.as_file(resources.files("clash")) as root, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*")):
            if file.suffix in (".py", ".json", ".typed") and "__pycache__" not in file.parts:
                archive.write(file, Path("clash") / file.relative_to(root))
    return target
