"""The clash package itself, for executors on other machines. Its dependencies must be installed there."""

from __future__ import annotations

import zipfile
from importlib import resources
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from clash.spark.configure import is_local

_NAME = "clash_package.zip"


def ship_package(context: Any) -> None:
    """Once per Spark context; on one machine the workers import what the driver imports."""
    if is_local(context.master) or _NAME in context._python_includes:
        return
    context.addPyFile(str(write_package(Path(mkdtemp(prefix="clash-")) / _NAME)))


def write_package(target: Path) -> Path:
    with resources.as_file(resources.files("clash")) as root, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*")):
            if file.suffix in (".py", ".json", ".typed") and "__pycache__" not in file.parts:
                archive.write(file, Path("clash") / file.relative_to(root))
    return target
