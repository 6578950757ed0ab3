"""The Python of Spark's workers, as it may be: absent, of another version, without our modules."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest

import clash
from clash.spark import worker_python
from clash.spark.worker_python import check_worker_python

from .files import JOIN, declare, write


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_python, "_checked", WeakKeyDictionary())


class Context:
    """Spark's, as far as it is asked."""

    master = "local[2]"

    def __init__(self, executable: object) -> None:
        self.pythonExec = str(executable)
        self.environment: dict[str, str] = {}


def script(folder: Path, text: str) -> Path:
    file = folder / "python3"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def test_that_of_the_program_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_python.subprocess, "run", lambda *args, **options: pytest.fail("a process was started"))
    check_worker_python(Context(sys.executable))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    check_worker_python(Context(Path(sys.executable).name))


def test_another_that_has_all_is_fine(tmp_path: Path) -> None:
    check_worker_python(Context(script(tmp_path, f'exec {sys.executable} "$@"')))


@pytest.mark.parametrize(
    ("text", "what", "detail"),
    [
        (None, "is not there", "is not on the PATH"),
        (f'exec {sys.executable} -S -E "$@"', "lacks modules", "has no clash, numba, numpy, pyarrow"),
        ("""echo '[[3, 9], []]'""", "another version", "is Python 3.9, this program runs 3."),
        ("exit 3", "does not run", "exit status 3"),
    ],
)
def test_one_that_cannot_run_our_tasks(tmp_path: Path, text: str | None, what: str, detail: str) -> None:
    executable = tmp_path / "none" if text is None else script(tmp_path, text)
    with pytest.raises(clash.OptionError, match=what) as caught:
        check_worker_python(Context(executable))
    assert detail in caught.value.detail
    assert "clash.configure" in caught.value.hint
    assert sys.executable in caught.value.hint


def test_a_start_is_refused_before_anything_is_written(
    spark: Any, checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "none"))
    write(tmp_path, range(1))
    engine = clash.Engine(spark, checkpoint, workers=2)
    declare(engine, spark, tmp_path)
    engine.query("q", JOIN)
    with pytest.raises(clash.OptionError, match="the Python of Spark's workers is not there"):
        engine.start()
    assert not Path(checkpoint).exists()


def test_on_other_machines_a_job_asks(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same function, in a worker of this Spark; then one whose Python is not on the executor's machine."""
    worker_python._check_there(spark.sparkContext)
    monkeypatch.setattr(worker_python, "_NEEDED", ("numpy", "no_such_module"))
    with pytest.raises(clash.OptionError, match="lacks modules") as caught:
        worker_python._check_there(spark.sparkContext)
    assert caught.value.detail.endswith("has no no_such_module")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/such/python")
    with pytest.raises(clash.OptionError, match="does not run") as caught:
        worker_python._check_there(spark.sparkContext)
    assert "/no/such/python" in caught.value.detail
