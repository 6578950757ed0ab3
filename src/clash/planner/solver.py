"""HiGHS on one program: in this process, or aside, in a process of its own.

Invariant: whoever plans beside a stream has no native code in its threads. A thread that is in HiGHS when its program ends takes the
program down with it (it unwinds through code that may not throw), cannot be told to stop, and either holds up whoever waits for it or, at a
low priority, whoever waits for the interpreter's lock. A process of the lowest priority does none of that: it works when nobody else wants
the processor, can be killed, and ends by itself with the one that started it. This file is that process's program, too, and needs nothing
else of ours.
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
_PATIENCE = 60.0  # seconds beyond its time limit, after which something must be wrong with it


class Program(NamedTuple):
    """min cost·x with rows low ≤ a·x ≤ high, `least` ≤ x ≤ `most`; a by rows. `start`: a solution to start from, or empty."""

    cost: npt.NDArray[np.float64]
    least: npt.NDArray[np.float64]
    most: npt.NDArray[np.float64]
    whole: npt.NDArray[np.bool_]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    starts: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int32]
    factors: npt.NDArray[np.float64]
    start: npt.NDArray[np.float64]


class Outcome(NamedTuple):
    """`values` are empty if no solution was found in time. Infeasible: there is none."""

    values: npt.NDArray[np.float64]
    cost: float
    bound: float
    optimal: bool
    infeasible: bool


def solve(program: Program, settings: Mapping[str, float]) -> Outcome:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, value in settings.items():
        solver.setOptionValue(name, value)
    solver.passModel(_model(program))
    if len(program.start):
        held = highspy.HighsSolution()
        held.col_value = program.start.tolist()
        held.value_valid = True
        solver.setSolution(held)
    solver.run()
    info, status = solver.getInfo(), solver.getModelStatus()
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return Outcome(
        values=np.array(solver.getSolution().col_value if found else [], np.float64),
        cost=info.objective_function_value,
        bound=info.mip_dual_bound,
        optimal=status == highspy.HighsModelStatus.kOptimal,
        infeasible=status == highspy.HighsModelStatus.kInfeasible,
    )


def _model(program: Program) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(program.cost), len(program.low)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.cost, program.least, program.most
    lp.row_lower_, lp.row_upper_ = program.low, program.high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = program.starts, program.columns, program.factors
    if program.whole.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[whole] for whole in program.whole.tolist()]
    return lp


class ClosedError(Exception):
    """Nobody waits for the answer any more."""


class Aside:
    """Solves one program at a time in a process of its own, until it is closed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def solve(self, program: Program, settings: Mapping[str, float]) -> Outcome:
        asked = _packed(program._asdict() | {f"setting {name}": np.array(value) for name, value in settings.items()})
        with tempfile.TemporaryFile() as said:
            with self._lock:
                if self._closed:
                    raise ClosedError
                pipe = subprocess.PIPE
                self._process = subprocess.Popen([sys.executable, "-P", __file__], stdin=pipe, stdout=pipe, stderr=said)
            answer, code = _answer(self._process, asked, settings["time_limit"] + _PATIENCE)
            said.seek(0)
            last = said.read().decode(errors="replace").splitlines()[-1:]
        if self._closed:
            raise ClosedError
        if code:
            raise RuntimeError(f"the solver's process ended with {code}: {''.join(last)}")
        found = _unpacked(io.BytesIO(answer))
        return Outcome(found["values"], *(found[name].item() for name in Outcome._fields[1:]))

    def close(self) -> None:
        """Ends what is under way; there is nothing after it."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()


def _answer(process: subprocess.Popen[bytes], asked: bytes, seconds: float) -> tuple[bytes, int]:
    """What it writes, and its exit code; it is ended if it takes longer."""
    limit = Timer(seconds, process.kill)
    limit.daemon = True
    limit.start()
    with process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("both are pipes")
        with suppress(BrokenPipeError):  # it has ended already, and says why
            process.stdin.write(asked)
            process.stdin.flush()  # not closed: its end tells the other side that nobody waits any more
        answer = process.stdout.read()
        code = process.wait()
    limit.cancel()
    return answer, code


def _packed(arrays: Mapping[str, Any]) -> bytes:
    """With its length in front, so that the reader need not wait for the end of the pipe."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    data = file.getvalue()
    return len(data).to_bytes(8, "little") + data


def _unpacked(file: io.BufferedIOBase) -> Arrays:
    data = file.read(int.from_bytes(file.read(8), "little"))
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return dict(arrays)


def main() -> None:
    """The other process: one program in, one outcome out."""
    with suppress(OSError):
        os.nice(19)
    asked = _unpacked(sys.stdin.buffer)  # type: ignore[arg-type]
    Thread(target=_end_with_the_other, daemon=True).start()
    settings = {name.removeprefix("setting "): value.item() for name, value in asked.items() if name.startswith("setting ")}
    outcome = solve(Program(**{name: asked[name] for name in Program._fields}), settings)
    sys.stdout.buffer.write(_packed(outcome._asdict()))
    sys.stdout.buffer.flush()
    os._exit(0)  # the thread waits for its pipe, and need not be waited for


def _end_with_the_other() -> None:
    os.read(0, 1)  # nothing comes but the end
    os._exit(1)


if __name__ == "__main__":
    main()
