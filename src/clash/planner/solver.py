"""HiGHS on one linear or mixed-integer program: in this process, or in a process of its own.

Invariant: a program that plans while a stream runs executes no solver code in its own threads. A thread inside HiGHS when the interpreter
exits brings the process down (it unwinds through code that must not throw). It cannot be interrupted. And it delays every thread that waits
for it or, at a low priority, every thread that waits for the interpreter's lock. A process of the lowest priority has none of these
problems: it uses the processor only when nothing else needs it, it can be killed, and it exits by itself when its parent does.

This file is also the program that the other process runs, so it must not import any other module of this project.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock, Thread, Timer
from typing import Any, NamedTuple

import highspy
import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]
_GRACE_SECONDS = 60.0  # beyond the solver's own time limit; a process that takes longer is taken to hang, and is killed
_SETTING_PREFIX = "setting "  # marks the arrays that carry solver settings in a request


class LinearProgram(NamedTuple):
    """min cost·x subject to row_lower ≤ A·x ≤ row_upper and lower ≤ x ≤ upper. A is stored by rows (CSR)."""

    cost: npt.NDArray[np.float64]
    lower: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]
    integral: npt.NDArray[np.bool_]
    """Which variables must be whole numbers."""
    row_lower: npt.NDArray[np.float64]
    row_upper: npt.NDArray[np.float64]
    row_starts: npt.NDArray[np.int32]
    """Row i has the entries row_starts[i] to row_starts[i + 1] of `columns` and `coefficients`."""
    columns: npt.NDArray[np.int32]
    coefficients: npt.NDArray[np.float64]
    start: npt.NDArray[np.float64]
    """A solution to start the search from, or empty."""


class SolverResult(NamedTuple):
    """What HiGHS returned."""

    values: npt.NDArray[np.float64]
    """One value per variable; empty if no solution was found in time. Those of a linear program need not satisfy its rows exactly."""
    duals: npt.NDArray[np.float64]
    """One dual value per row of a linear program; empty if there are none. They need not be exact either."""
    cost: float
    bound: float
    """The proven lower bound on the cost of any integer solution."""
    optimal: bool
    infeasible: bool
    """Whether it is proven that there is no solution."""


Settings = Mapping[str, float | str]
"""Options of HiGHS by name."""


def solve(program: LinearProgram, settings: Settings) -> SolverResult:
    """Runs HiGHS in this process."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, value in settings.items():
        solver.setOptionValue(name, value)
    solver.passModel(_highs_model(program))
    if len(program.start):
        start = highspy.HighsSolution()
        start.col_value = program.start.tolist()
        start.value_valid = True
        solver.setSolution(start)
    solver.run()
    info, status = solver.getInfo(), solver.getModelStatus()
    found, integer = solver.getSolution(), bool(program.integral.any())
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return SolverResult(
        values=np.array(found.col_value if feasible or (found.value_valid and not integer) else [], np.float64),
        duals=np.array(found.row_dual if found.dual_valid and not integer else [], np.float64),
        cost=info.objective_function_value,
        bound=info.mip_dual_bound,
        optimal=status == highspy.HighsModelStatus.kOptimal,
        infeasible=status == highspy.HighsModelStatus.kInfeasible,
    )


def _highs_model(program: LinearProgram) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(program.cost), len(program.row_lower)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.cost, program.lower, program.upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = program.row_starts, program.columns, program.coefficients
    if program.integral.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[integral] for integral in program.integral.tolist()]
    return lp


class ClosedError(Exception):
    """The solver process was closed before it returned a result."""


class SolverProcess:
    """Solves one program at a time, each in a new process, until it is closed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def solve(self, program: LinearProgram, settings: Settings) -> SolverResult:
        """Like the function `solve`; `settings` must contain `time_limit`. Raises ClosedError if `close` is called meanwhile."""
        request = _pack(program._asdict() | {f"{_SETTING_PREFIX}{name}": np.array(value) for name, value in settings.items()})
        with tempfile.TemporaryFile() as errors:
            with self._lock:
                if self._closed:
                    raise ClosedError
                pipe = subprocess.PIPE
                self._process = subprocess.Popen([sys.executable, "-P", __file__], stdin=pipe, stdout=pipe, stderr=errors)
            response, exit_code = _exchange(self._process, request, float(settings["time_limit"]) + _GRACE_SECONDS)
            errors.seek(0)
            last_error = errors.read().decode(errors="replace").splitlines()[-1:]
        if self._closed:
            raise ClosedError
        if exit_code:
            raise RuntimeError(f"the solver's process ended with {exit_code}: {''.join(last_error)}")
        arrays = _unpack(io.BytesIO(response))
        return SolverResult(arrays["values"], arrays["duals"], *(arrays[name].item() for name in SolverResult._fields[2:]))

    def close(self) -> None:
        """Kills the process that is running, if any, and refuses further programs."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()


def _exchange(process: subprocess.Popen[bytes], request: bytes, seconds: float) -> tuple[bytes, int]:
    """Sends the request; returns what the process writes and its exit code. The process is killed if it takes longer than `seconds`."""
    limit = Timer(seconds, process.kill)
    limit.daemon = True
    limit.start()
    with process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("both are pipes")
        with suppress(BrokenPipeError):  # the process has exited already; its exit code and stderr say why
            process.stdin.write(request)
            process.stdin.flush()  # stdin stays open: its end signals to the process that the parent is gone
        response = process.stdout.read()
        exit_code = process.wait()
    limit.cancel()
    return response, exit_code


def _pack(arrays: Mapping[str, Any]) -> bytes:
    """The arrays as bytes, preceded by their length, so that the reader need not wait for the end of the pipe."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    data = file.getvalue()
    return len(data).to_bytes(8, "little") + data


def _unpack(file: io.BufferedIOBase) -> Arrays:
    data = file.read(int.from_bytes(file.read(8), "little"))
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return dict(arrays)


def main() -> None:
    """The other process: reads one program from stdin, writes one result to stdout."""
    with suppress(OSError):
        os.nice(19)
    request = _unpack(sys.stdin.buffer)  # type: ignore[arg-type]
    Thread(target=_exit_with_parent, daemon=True).start()
    settings = {name.removeprefix(_SETTING_PREFIX): value.item() for name, value in request.items() if name.startswith(_SETTING_PREFIX)}
    result = solve(LinearProgram(**{name: request[name] for name in LinearProgram._fields}), settings)
    sys.stdout.buffer.write(_pack(result._asdict()))
    sys.stdout.buffer.flush()
    os._exit(0)  # without waiting for the thread, which blocks on its pipe


def _exit_with_parent() -> None:
    os.read(0, 1)  # the parent sends nothing more, so this returns only when stdin is closed: the parent has exited
    os._exit(1)


if __name__ == "__main__":
    main()
