"""The solver in a process of its own: the same results, and no harm to the program that uses it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import clash
from clash.planner.optimize import plan_queries
from clash.planner.solver import ClosedError, LinearProgram, SolverProcess, SolverResult, solve

SETTINGS = {"output_flag": False, "time_limit": 600.0}
HARD = ["R(a,b), S(a,c), T(c,d), U(d,e), V(e,f)", "S(a,c), T(c,d), U(d,e), V(e,f), W(f,g)", "T(c,d), U(d,e), V(e,f), W(f,g), Z(g,k)"]


def knapsack(items: int, seed: int = 1) -> LinearProgram:
    random = np.random.default_rng(seed)
    columns = np.tile(np.arange(items, dtype=np.int32), 5)
    return LinearProgram(
        cost=-random.integers(10, 100, items).astype(float),
        lower=np.zeros(items),
        upper=np.ones(items),
        integral=np.ones(items, bool),
        row_lower=np.full(5, -np.inf),
        row_upper=np.full(5, 12.0 * items),
        row_starts=np.arange(0, 5 * items + 1, items, dtype=np.int32),
        columns=columns,
        coefficients=random.integers(10, 100, 5 * items).astype(float),
        start=np.zeros(0),
    )


def test_the_solver_process_gives_the_same_result() -> None:
    program = knapsack(20)
    local, remote = solve(program, SETTINGS), SolverProcess().solve(program, SETTINGS)
    assert local.optimal
    assert (local.values == remote.values).all()
    assert local[2:] == remote[2:]
    relaxed = program._replace(integral=np.zeros(20, bool))
    assert (solve(relaxed, SETTINGS).duals == SolverProcess().solve(relaxed, SETTINGS).duals).all()
    started = SolverProcess().solve(program._replace(start=local.values), SETTINGS)
    assert started.cost == local.cost


def test_no_solution_in_time_and_none_at_all() -> None:
    program = knapsack(20)
    assert SolverProcess().solve(program._replace(row_lower=np.full(5, 1e6), row_upper=np.full(5, np.inf)), SETTINGS).infeasible
    timed_out = SolverProcess().solve(program._replace(row_lower=np.full(5, 100.0)), SETTINGS | {"time_limit": 0.0})
    assert len(timed_out.values) == 0
    assert not timed_out.optimal


def test_a_plan_is_the_same_wherever_it_was_solved() -> None:
    queries = {"q1": "R(a), S(a,b), T(b)", "q2": "S(b), T(b,c), U(c)"}
    for cost in ("full", "probe"):
        local = clash.optimize(queries, cost=cost, time_limit=600.0)  # type: ignore[arg-type]
        remote = plan_queries(local.queries, local.request, solver=SolverProcess())
        assert remote.optimal
        assert remote.cost == pytest.approx(local.cost)


def test_closing_ends_what_is_running() -> None:
    solver, raised = SolverProcess(), []

    def run() -> SolverResult | None:
        try:
            return solver.solve(knapsack(400), SETTINGS | {"time_limit": 600.0})
        except ClosedError as error:
            raised.append(error)
            return None

    thread = Thread(target=run)
    thread.start()
    while solver._process is None:
        time.sleep(0.01)
    solver.close()
    thread.join()
    assert len(raised) == 1
    with pytest.raises(ClosedError):
        solver.solve(knapsack(2), SETTINGS)


def test_a_process_that_cannot_solve_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "highspy.py").write_text("raise ImportError('no solver here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"ended with 1: .*no solver here"):
        SolverProcess().solve(knapsack(2), SETTINGS)


def test_a_process_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "highspy.py").write_text("import sys, time; sys.stderr.write(100_000 * 'x'); sys.stderr.flush(); time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("clash.planner.solver._GRACE_SECONDS", 1.0)
    with pytest.raises(RuntimeError, match="ended with -9"):
        SolverProcess().solve(knapsack(2), SETTINGS | {"time_limit": 0.1})


def test_a_program_may_exit_while_the_solver_runs() -> None:
    """A thread inside the solver would bring the program down if it returned while the interpreter exits."""
    program = f"""
import dataclasses, time, threading, clash
from clash.planner.optimize import plan_queries
from clash.planner.solver import SolverProcess
queries = {dict(zip("abc", HARD, strict=True))!r}
quick = clash.optimize(queries, clash.Statistics(default_selectivity=0.01), time_limit=0)
request = dataclasses.replace(quick.request, time_limit=2.0)
threading.Thread(target=lambda: plan_queries(quick.queries, request, solver=SolverProcess()), daemon=True).start()
time.sleep(1)
class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(2)
slow = Slow()
"""
    command = [sys.executable, "-X", "dev", "-W", "ignore", "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_solver_exits_with_a_program_that_is_killed() -> None:
    program = f"""
import sys, threading, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_solver import knapsack
from clash.planner.solver import SolverProcess
solver = SolverProcess()
threading.Thread(target=solver.solve, args=(knapsack(400), {{"output_flag": False, "time_limit": 600.0}}), daemon=True).start()
while solver._process is None:
    time.sleep(0.01)
time.sleep(1)
print(solver._process.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        solver = int(parent.stdout.readline())
        assert is_alive(solver)
        parent.kill()
    for _ in range(1000):
        if not is_alive(solver):
            return
        time.sleep(0.02)
    os.kill(solver, signal.SIGKILL)
    pytest.fail("the solver still runs")


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
