"""The solver in a process of its own: the same answers, and no trouble for the program that asked."""

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
from clash.planner.solver import Aside, ClosedError, Outcome, Program, solve

SETTINGS = {"output_flag": False, "time_limit": 600.0}
HARD = ["R(a,b), S(a,c), T(c,d), U(d,e), V(e,f)", "S(a,c), T(c,d), U(d,e), V(e,f), W(f,g)", "T(c,d), U(d,e), V(e,f), W(f,g), Z(g,k)"]


def knapsack(items: int, seed: int = 1) -> Program:
    random = np.random.default_rng(seed)
    columns = np.tile(np.arange(items, dtype=np.int32), 5)
    return Program(
        cost=-random.integers(10, 100, items).astype(float),
        least=np.zeros(items),
        most=np.ones(items),
        whole=np.ones(items, bool),
        low=np.full(5, -np.inf),
        high=np.full(5, 12.0 * items),
        starts=np.arange(0, 5 * items + 1, items, dtype=np.int32),
        columns=columns,
        factors=random.integers(10, 100, 5 * items).astype(float),
        start=np.zeros(0),
    )


def test_aside_gives_the_same_answer() -> None:
    program = knapsack(20)
    here, there = solve(program, SETTINGS), Aside().solve(program, SETTINGS)
    assert here.optimal
    assert (here.values == there.values).all()
    assert here[1:] == there[1:]
    started = Aside().solve(program._replace(start=here.values), SETTINGS)
    assert started.cost == here.cost


def test_no_solution_in_time_and_none_at_all() -> None:
    program = knapsack(20)
    assert Aside().solve(program._replace(low=np.full(5, 1e6), high=np.full(5, np.inf)), SETTINGS).infeasible
    nothing = Aside().solve(program._replace(low=np.full(5, 100.0)), SETTINGS | {"time_limit": 0.0})
    assert len(nothing.values) == 0
    assert not nothing.optimal


def test_a_plan_is_the_same_wherever_it_was_solved() -> None:
    queries = {"q1": "R(a), S(a,b), T(b)", "q2": "S(b), T(b,c), U(c)"}
    for cost in ("full", "probe"):
        here, there = (clash.optimize(queries, cost=cost, time_limit=600.0, aside=aside) for aside in (None, Aside()))  # type: ignore[arg-type]
        assert there.optimal
        assert there.cost == pytest.approx(here.cost)


def test_closing_ends_what_is_under_way() -> None:
    aside, raised = Aside(), []

    def run() -> Outcome | None:
        try:
            return aside.solve(knapsack(400), SETTINGS | {"time_limit": 600.0})
        except ClosedError as error:
            raised.append(error)
            return None

    thread = Thread(target=run)
    thread.start()
    while aside._process is None:
        time.sleep(0.01)
    aside.close()
    thread.join()
    assert len(raised) == 1
    with pytest.raises(ClosedError):
        aside.solve(knapsack(2), SETTINGS)


def test_a_process_that_cannot_solve_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "highspy.py").write_text("raise ImportError('no solver here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"ended with 1: .*no solver here"):
        Aside().solve(knapsack(2), SETTINGS)


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "highspy.py").write_text("import sys, time; sys.stderr.write(100_000 * 'x'); sys.stderr.flush(); time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("clash.planner.solver._PATIENCE", 1.0)
    with pytest.raises(RuntimeError, match="ended with -9"):
        Aside().solve(knapsack(2), SETTINGS | {"time_limit": 0.1})


def test_a_program_may_end_while_the_solver_works() -> None:
    """A thread in the solver's own code took the program down, if it came back while the interpreter was on its way out."""
    program = f"""
import time, threading, clash
from clash.planner.solver import Aside
queries = {dict(zip("abc", HARD, strict=True))!r}
ask = lambda: clash.optimize(queries, clash.Statistics(default_selectivity=0.01), time_limit=2, aside=Aside())
threading.Thread(target=ask, daemon=True).start()
time.sleep(1)
class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(2)
slow = Slow()
"""
    asked = [sys.executable, "-X", "dev", "-W", "ignore", "-c", program]
    ran = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_solver_ends_with_a_program_that_is_killed(tmp_path: Path) -> None:
    program = f"""
import sys, threading, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_highs import knapsack
from clash.planner.solver import Aside
aside = Aside()
threading.Thread(target=aside.solve, args=(knapsack(400), {{"output_flag": False, "time_limit": 600.0}}), daemon=True).start()
while aside._process is None:
    time.sleep(0.01)
time.sleep(1)
print(aside._process.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        solver = int(asking.stdout.readline())
        assert is_alive(solver)
        asking.kill()
    for _ in range(1000):
        if not is_alive(solver):
            return
        time.sleep(0.02)
    os.kill(solver, signal.SIGKILL)
    pytest.fail("the solver is still there")


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
