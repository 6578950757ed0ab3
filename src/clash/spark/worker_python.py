"""Which Python runs in Spark's workers, and whether it can run our tasks; checked before a run starts.

Without `clash.configure` or PYSPARK_PYTHON, Spark runs the `python3` of the PATH, which need not be that of the program.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from clash.errors import OptionError
from clash.spark.configure import is_local
from clash.spark.failures import explain_failure

_NEEDED = ("numba", "numpy", "pyarrow")  # by tasks; the package itself is shipped to other machines
_MAX_SECONDS = 60
_PROBE = """
import importlib.util, json, sys
missing = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]
print(json.dumps([list(sys.version_info[:2]), missing]))
"""
_checked: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # contexts of Spark, and their Python


def check_worker_python(context: Any) -> None:
    """Refuses a Spark whose workers cannot run our tasks. Costs nothing where they run the interpreter of this program; one small process
    where it is another, and one small job where they are on other machines; each once per Spark context."""
    if _checked.get(context) != context.pythonExec:
        if is_local(context.master):
            _check_here(context)
        else:
            _check_there(context)
        _checked[context] = context.pythonExec


def _check_here(context: Any) -> None:
    executable = shutil.which(context.pythonExec)
    hint = f"make the session with clash.configure(SparkSession.builder…), or set PYSPARK_PYTHON={sys.executable} before Spark starts"
    if executable is None:
        raise OptionError("the Python of Spark's workers is not there", f"{context.pythonExec} is not on the PATH", hint)
    if Path(executable).absolute() == Path(sys.executable).absolute():  # not resolved: the Python of a virtual environment is a link
        return
    command = [executable, "-c", _PROBE, "clash", *_NEEDED]
    try:
        environment = {**os.environ, **context.environment}
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MAX_SECONDS, env=environment, check=True)
        version, missing = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise OptionError("the Python of Spark's workers does not run", f"{executable}: {error}", hint) from None
    _refuse_unfit(executable, version, missing, hint)


def _check_there(context: Any) -> None:
    def probe(names: list[str]) -> tuple[list[int], list[str], str]:
        """Inside of another function, so that it travels as code: there may be no package of ours yet."""
        import importlib.util
        import sys

        return list(sys.version_info[:2]), [name for name in names if importlib.util.find_spec(name) is None], sys.executable

    hint = "install what pyproject.toml lists on all machines, and set PYSPARK_PYTHON to that Python before Spark starts"
    try:
        ((version, missing, executable),) = context.parallelize([list(_NEEDED)], 1).map(probe).collect()
    except Exception as error:
        line = next((line.strip() for line in str(error).splitlines() if _names_python(line)), None)
        if line is None:
            raise explain_failure(error) from error
        raise OptionError("the Python of Spark's workers does not run", f"{context.pythonExec}: {line[:300]}", hint) from None
    _refuse_unfit(executable, version, missing, hint)


def _names_python(line: str) -> bool:
    return "Cannot run program" in line or "PYTHON_VERSION_MISMATCH" in line


def _refuse_unfit(executable: str, version: list[int], missing: list[str], hint: str) -> None:
    if tuple(version) != sys.version_info[:2]:
        versions = f"{executable} is Python {'.'.join(map(str, version))}, this program runs {sys.version_info[0]}.{sys.version_info[1]}"
        raise OptionError("Spark's workers run another version of Python", versions, hint)
    if missing:
        raise OptionError("the Python of Spark's workers lacks modules", f"{executable} has no {', '.join(missing)}", hint)
