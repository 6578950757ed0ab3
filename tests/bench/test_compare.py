"""The comparison of two commits: its verdicts on made-up figures, and its refusals. Nothing is measured, and no time is asserted."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clash.errors import ClashError, OptionError
from clash_bench import compare
from clash_bench.cli import app
from clash_bench.compare_runs import Commit, checked_out, find_commits, run_benchmark
from clash_bench.compare_verdict import LEVEL, MIN_ROUNDS, Measure, _ranks_outside
from clash_bench.compare_verdict import compare as verdict

TIME = Measure("ms")
RATE = Measure("tuples/s", more_is_better=True)
MEMORY = Measure("MB", is_time=False)
SMALL, LARGE = [10.0, 11.0, 10.5, 10.2], [20.0, 21.0, 20.5, 20.2]


def test_runs_that_do_not_overlap_are_told_apart() -> None:
    found = verdict(TIME, LARGE, SMALL)
    assert (found.verdict, found.runs, found.a, found.b) == ("faster", 4, pytest.approx(20.35), pytest.approx(10.35))
    assert found.low <= found.ratio <= found.high < 1
    assert found.ratio == pytest.approx(0.51, abs=0.01)
    assert verdict(TIME, SMALL, LARGE).verdict == "slower"
    assert verdict(RATE, SMALL, LARGE).verdict == "faster"
    assert verdict(RATE, LARGE, SMALL).verdict == "slower"
    assert (verdict(MEMORY, LARGE, SMALL).verdict, verdict(MEMORY, SMALL, LARGE).verdict) == ("better", "worse")


def test_the_exchange_of_the_commits_inverts_the_ratio() -> None:
    there, back = verdict(TIME, SMALL, LARGE), verdict(TIME, LARGE, SMALL)
    assert back.ratio == pytest.approx(1 / there.ratio)
    assert (back.low, back.high) == (pytest.approx(1 / there.high), pytest.approx(1 / there.low))


def test_runs_that_overlap_are_not_told_apart() -> None:
    found = verdict(TIME, [10, 12, 14, 16, 18], [11, 13, 15, 17, 19])
    assert found.verdict == "not told apart"
    assert found.low < 1 < found.high
    assert verdict(TIME, SMALL, SMALL).verdict == "not told apart"


def test_one_disturbed_run_does_not_decide() -> None:
    a = [10.0, 10.1, 10.2, 10.3, 10.4, 10.5]
    assert verdict(TIME, a, [9.0, 9.1, 9.2, 9.3, 9.4, 90.0]).verdict == "not told apart"
    assert verdict(TIME, [*a, 10.6, 10.7], [9.0, 9.1, 9.2, 9.3, 9.4, 9.5, 9.6, 90.0]).verdict == "faster"


def test_few_runs_are_never_told_apart() -> None:
    assert verdict(TIME, LARGE[:3], SMALL[:3]).verdict == "not told apart"
    assert _ranks_outside(MIN_ROUNDS - 1, MIN_ROUNDS - 1) == 0 < _ranks_outside(MIN_ROUNDS, MIN_ROUNDS)


@pytest.mark.parametrize("runs", [4, 5, 6])
def test_equal_commits_are_told_apart_no_more_often_than_the_level(runs: int) -> None:
    """All orders of the runs, each of which is as likely as any other."""
    figures = [100.0 * 1.01**at for at in range(2 * runs)]
    found = []
    for first in combinations(range(2 * runs), runs):
        second = [figures[at] for at in range(2 * runs) if at not in first]
        found.append(verdict(TIME, [figures[at] for at in first], second).verdict)
    assert 0 < sum(each != "not told apart" for each in found) / len(found) <= LEVEL


# ---- figures ----------------------------------------------------------------------------------------------------------


def test_figures_of_latency_also_of_an_old_commit() -> None:
    old = [{"trigger": "298", "tenth": "350", "tasks": "81"}]
    assert {measure.name: value for measure, value in compare.latency_figures(old).items()} == {
        "trigger, ms": 298, "trigger of one batch in ten, ms": 350, "time of tasks, ms": 81,
    }  # fmt: skip
    kinds = [(what, sources) for sources in ("several", "one") for what in ("floor", "clash")]
    new = [
        {"what": what, "sources": sources, "trigger": str(at), "tenth": "9", "tasks": "8", "floor_ratio": "2.5"}
        for at, (what, sources) in enumerate(kinds, start=100)
    ]
    figures = {measure.name: value for measure, value in compare.latency_figures(new).items()}
    assert (figures["trigger, ms"], figures["trigger from one source, ms"], figures["over the floor"]) == (101, 103, 2.5)


def test_figures_of_throughput() -> None:
    line = {
        "tuples_per_second": "200000", "tuples": "900", "batch_seconds": "3", "microseconds_per_tuple": "4.5",
        "memory_driver": "100", "memory_jvm": "500", "memory_workers": "900",
    }  # fmt: skip
    assert list(compare.throughput_figures([line]).values()) == [200_000, 300, 4.5, 1500]


# ---- a whole comparison -----------------------------------------------------------------------------------------------


class MadeUpRuns:
    """Stands in for the runs of the benchmark: the second commit takes half of the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.order, self.arguments = "", [""]
        monkeypatch.setattr(compare, "find_commits", lambda names, _: [Commit(name, f"{name}{'0' * 38}") for name in names])
        monkeypatch.setattr(compare, "checked_out", self.checked_out)
        monkeypatch.setattr(compare, "run_benchmark", self.run)

    @contextmanager
    def checked_out(self, commits: Sequence[Commit], clone: Path) -> Iterator[list[Path]]:
        yield [Path(commit.name) for commit in commits]

    def run(self, commit: Commit, folder: Path, arguments: list[str], file: str) -> list[dict[str, str]]:
        assert (folder, file) == (Path(commit.name), "tpch-latency.csv")
        self.order, self.arguments = self.order + commit.name, arguments
        trigger = (100 if commit.name == "v1" else 50) + len(self.order)
        line = {"trigger": str(trigger), "tenth": "150", "tasks": "40"}
        return [line if commit.name == "v1" else {**line, "what": "clash", "sources": "several", "floor_ratio": "2"}]


def test_commits_alternate_and_are_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = MadeUpRuns(monkeypatch)
    out = tmp_path / "out"
    shown = CliRunner().invoke(app, ["compare", "v1", "v2", "--rounds", "4", "--data", str(tmp_path), "--out", str(out)])
    assert shown.exit_code == 0, shown.output
    assert runs.order == "v1v2v2v1v1v2v2v1"
    assert runs.arguments == ["tpch", "--queries", "5", "--data", str(tmp_path), "--latency"]
    with (out / "compare-verdicts.csv").open() as file:
        verdicts = {line["measure"]: line["verdict"] for line in csv.DictReader(file)}
    # the floor is not among them: only one of the commits has it
    assert verdicts == {
        "trigger, ms": "faster", "trigger of one batch in ten, ms": "not told apart", "time of tasks, ms": "not told apart",
    }  # fmt: skip
    with (out / "compare.csv").open() as file:
        assert [line["arm"] for line in csv.DictReader(file) if line["measure"] == "trigger, ms"] == list("abbaabba")
    assert "faster" in shown.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["v1", "v2", "--rounds", "3"], "rounds"),
        (["v1", "v2", "--queries", "7"], "no such set"),
        (["v1", "v2", "--what", "speed"], "what"),
        (["v1"], "commit_b"),
        (["HEAD", "no-such-commit-anywhere"], "there is no such commit"),
    ],
)
def test_wrong_arguments_are_refused_with_a_hint(arguments: list[str], said: str, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["compare", *arguments, "--out", str(tmp_path)])
    assert shown.exit_code == 2
    assert said in shown.output
    assert "hint" in shown.output
    assert not list(tmp_path.iterdir())


# ---- clones and worktrees ---------------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with two commits, whose `clash_bench` writes what it is."""
    folder = tmp_path / "clone"
    for number in (1, 2):
        for name in ("src/clash/__init__.py", "bench/clash_bench/__init__.py"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("")
        program = f"import sys; open(sys.argv[-1] + '/r.csv', 'w').write('version,option\\n{number},' + sys.argv[1] + '\\n')\n"
        (folder / "bench/clash_bench/__main__.py").write_text(program)
        if number == 1:
            git(folder, "init", "--quiet")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", f"version {number}")
        git(folder, "tag", f"v{number}")
    return folder


def test_each_commit_runs_its_own_packages_and_leaves_no_worktree(clone: Path) -> None:
    commits = find_commits(("v1", "v2"), clone)
    assert [commit.identity for commit in commits] == [git(clone, "rev-parse", "v1"), git(clone, "rev-parse", "v2")]
    with checked_out(commits, clone) as folders:
        lines = [run_benchmark(commit, folder, ["x"], "r.csv") for commit, folder in zip(commits, folders, strict=True)]
        with pytest.raises(ClashError, match="a run of the benchmark failed"):
            run_benchmark(commits[0], folders[0], ["x"], "other.csv")
    assert lines == [[{"version": "1", "option": "x"}], [{"version": "2", "option": "x"}]]
    assert not any(folder.exists() for folder in folders)
    assert len(git(clone, "worktree", "list").splitlines()) == 1


def test_a_commit_can_be_compared_with_itself(clone: Path) -> None:
    with checked_out(find_commits(("v2", "v2"), clone), clone) as folders:
        assert folders[0] != folders[1]


def test_what_is_not_there_is_refused(clone: Path, tmp_path: Path) -> None:
    for name in ("v3", "--all", ""):
        with pytest.raises(OptionError, match="there is no such commit") as refused:
            find_commits(("v1", name), clone)
        assert repr(name) in refused.value.detail
    (tmp_path / "plain").mkdir()
    with pytest.raises(ClashError, match="not in a clone"):
        find_commits(("v1", "v2"), tmp_path / "plain")


def test_a_commit_without_benchmarks_is_refused(clone: Path) -> None:
    git(clone, "rm", "-r", "--quiet", "bench")
    git(clone, "commit", "--quiet", "-m", "no benchmarks")
    with pytest.raises(ClashError, match="cannot be measured") as refused, checked_out(find_commits(("HEAD",), clone), clone):
        pass
    assert "clash_bench" in refused.value.detail
    assert len(git(clone, "worktree", "list").splitlines()) == 1
