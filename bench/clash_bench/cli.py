"""The command line of the benchmarks, as `clash bench` and as `python -m clash_bench`.

Each command imports its module, which has a function `run`, only when it runs: `--help` needs neither Spark nor Matplotlib.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from clash.cli.report import ReportingGroup
from clash.errors import ClashError, OptionError

RESULTS = Path("bench/results")
DATA = Path("bench/data")
StrategyName = Literal["independent", "shared", "global"]

app = typer.Typer(
    cls=ReportingGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Run a benchmark; CSV and plots go under bench/results.",
)

Out = Annotated[Path, typer.Option(help="Where CSV files and plots go.")]


@app.command("ilp")
def ilp(
    sizes: Annotated[str, typer.Option(metavar="N,N,…", help="Relations per query.")] = "3,4,5",
    counts: Annotated[str, typer.Option(metavar="N,N,…", help="Queries per set.")] = "10,30,100",
    formulations: Annotated[str, typer.Option(metavar="NAME,…", help="published, compact.")] = "published,compact",
    layouts: Annotated[str, typer.Option(metavar="NAME,…", help="one, many.")] = "one,many",
    time_limit: Annotated[float, typer.Option(min=0.0, metavar="SECONDS", help="Per solve.")] = 60.0,
    repeat: Annotated[int, typer.Option(min=1, help="Query sets per line, each from its own seed.")] = 1,
    out: Out = RESULTS,
) -> None:
    """Planning time over 100 relations, for several formulations, layout rules and sizes."""
    _run(
        "ilp",
        sizes=_numbers("sizes", sizes),
        counts=_numbers("counts", counts),
        formulations=_names("formulations", formulations, ("published", "compact")),
        layouts=_names("layouts", layouts, ("one", "many")),
        time_limit=time_limit,
        repeat=repeat,
        out=out,
    )


@app.command("gaps")
def gaps(
    cost: Annotated[Literal["probe", "full"], typer.Option(help="Cost model.")] = "probe",
    statistics: Annotated[
        Literal["uniform", "varied"], typer.Option(help="Rates: all equal as in the paper, or a rate per stream.")
    ] = "uniform",
    lines: Annotated[str, typer.Option(metavar="N×N,…", help="Queries × relations to measure, of those there are; all if empty.")] = "",
    job: Annotated[bool, typer.Option(help="Also a set like the Join Order Benchmark's.")] = True,
    repeat: Annotated[int, typer.Option(min=1, help="Query sets per line, each from its own seed.")] = 5,
    out: Out = RESULTS,
) -> None:
    """The proven gap of large query sets under time limits, in wall and CPU seconds."""
    from clash_bench.gaps import JOB_LIMITS, LINES

    known = {f"{line.queries}×{line.size}" for line in LINES}
    chosen = set(_names("lines", lines.replace("x", "×"), tuple(known))) if lines else known
    measured = [line for line in LINES if f"{line.queries}×{line.size}" in chosen]
    _run("gaps", cost=cost, statistics_name=statistics, lines=measured, job_limits=JOB_LIMITS if job else (), repeat=repeat, out=out)


@app.command("paper-ilp")
def paper_ilp(
    repetitions: Annotated[int, typer.Option(min=1, help="Query sets per point.")] = 100,
    out: Out = RESULTS,
) -> None:
    """The paper's figures on cost, problem size and run time, with our values drawn over the paper's."""
    _run("paper_ilp", repetitions=repetitions, out=out)


@app.command("skew")
def skew(
    exponent: Annotated[float, typer.Option(min=0.0, max=5.0, help="Of the Zipf distribution of the keys.")] = 1.5,
    batches: Annotated[int, typer.Option(min=8, max=1000, help="Micro-batches per set of frequent keys.")] = 16,
    out: Out = RESULTS,
) -> None:
    """The share of the busiest of four workers where join keys are skewed; counted in process, not timed."""
    _run("skew", skew=exponent, batches=batches, out=out)


@app.command("tpch")
def tpch(
    queries: Annotated[int, typer.Option(min=1, help="5 or 10; any number with --random.")] = 5,
    random: Annotated[int, typer.Option(min=0, metavar="SEED", help="Random queries of this seed instead; 0 for none.")] = 0,
    scale: Annotated[float, typer.Option(min=0.001, max=100.0, help="TPC-H scale factor.")] = 0.1,
    batches: Annotated[int, typer.Option(min=1, max=100_000, help="Micro-batches that each table is cut into.")] = 10,
    strategy: Annotated[StrategyName, typer.Option(help="How the queries are planned.")] = "global",
    workers: Annotated[int, typer.Option(min=1, max=1000, help="Workers that the stores are partitioned over.")] = 2,
    repeat: Annotated[int, typer.Option(min=1, help="Measured runs, after a warm-up.")] = 1,
    latency: Annotated[bool, typer.Option("--latency", help="Milliseconds per micro-batch of 1,000 tuples.")] = False,
    growth: Annotated[bool, typer.Option("--growth", help="Cost per tuple at ten times the scale, batches of equal size.")] = False,
    state: Annotated[bool, typer.Option("--state", help="State of all three strategies.")] = False,
    data: Annotated[Path, typer.Option(help="Where generated data is kept.")] = DATA,
    out: Out = RESULTS,
) -> None:
    """Shared stream joins over TPC-H on local Spark, checked against and compared with DuckDB's batch join."""
    if not random and queries not in (5, 10):
        raise OptionError("no such set of TPC-H queries", f"--queries {queries}", "write 5 or 10, or add --random SEED")
    _run(
        "tpch",
        queries=queries,
        random=random,
        scale=scale,
        batches=batches,
        strategy=strategy,
        workers=workers,
        repeat=repeat,
        latency=latency,
        growth=growth,
        state=state,
        data=data,
        out=out,
    )


@app.command("compare")
def compare(
    commit_a: Annotated[str, typer.Argument(metavar="COMMIT_A", help="A branch, tag or hash of the clone.")],
    commit_b: Annotated[str, typer.Argument(metavar="COMMIT_B", help="What is compared with it.")],
    what: Annotated[Literal["latency", "throughput"], typer.Option(help="As measured by `tpch`, with or without --latency.")] = "latency",
    queries: Annotated[int, typer.Option(min=1, help="5 or 10.")] = 5,
    scale: Annotated[float, typer.Option(min=0.001, max=100.0, help="TPC-H scale factor, for throughput.")] = 0.1,
    batches: Annotated[int, typer.Option(min=1, max=100_000, help="Micro-batches, for throughput.")] = 10,
    rounds: Annotated[int, typer.Option(min=4, help="Runs of each commit; with more, smaller differences are told apart.")] = 5,
    data: Annotated[Path, typer.Option(help="Where generated data is kept.")] = DATA,
    out: Out = RESULTS,
) -> None:
    """Two commits measured in alternation on this machine: is the second one faster, slower, or not told apart?"""
    if queries not in (5, 10):
        raise OptionError("no such set of TPC-H queries", f"--queries {queries}", "write 5 or 10")
    _run("compare", a=commit_a, b=commit_b, what=what, queries=queries, scale=scale, batches=batches, rounds=rounds, data=data, out=out)


@app.command("statistics")
def statistics(
    scale: Annotated[float, typer.Option(min=0.001, max=100.0, help="TPC-H scale factor of the data that estimates are checked on.")] = 0.1,
    plans: Annotated[int, typer.Option(min=2, max=1000, help="Plans whose predicted and measured costs are compared.")] = 16,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each plan; the best one counts.")] = 2,
    data: Annotated[Path, typer.Option(help="Where generated data is kept.")] = DATA,
    out: Out = RESULTS,
) -> None:
    """The cost of collecting statistics, the error of the estimates, and how well predicted costs rank plans."""
    _run("statistics", scale=scale, plans=plans, repeat=repeat, data=data, out=out)


@app.command("plans")
def plans(
    queries: Annotated[int, typer.Option(min=1, help="5 or 10.")] = 5,
    scale: Annotated[float, typer.Option(min=0.001, max=100.0, help="TPC-H scale factor.")] = 0.1,
    batches: Annotated[int, typer.Option(min=1, max=100_000, help="Micro-batches.")] = 10,
    count: Annotated[int, typer.Option("--plans", min=3, max=1000, help="Plans that are run: those that look best.")] = 20,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each plan; the best one counts.")] = 3,
    data: Annotated[Path, typer.Option(help="Where generated data is kept.")] = DATA,
    out: Out = RESULTS,
) -> None:
    """The cost model against the clock: CPU seconds of the plans that look best, and how far the planner's choice is from the fastest."""
    if queries not in (5, 10):
        raise OptionError("no such set of TPC-H queries", f"--queries {queries}", "write 5 or 10")
    _run("plan_costs", queries=queries, scale=scale, batches=batches, plans=count, repeat=repeat, data=data, out=out)


@app.command("adaptive")
def adaptive(
    experiments: Annotated[str, typer.Option(metavar="NAME,…", help="selectivity, store, cost.")] = "selectivity,store,cost",
    rate: Annotated[int, typer.Option(min=100, help="Tuples per second of each stream, in the experiment with equal rates.")] = 5000,
    fast: Annotated[int, typer.Option(min=100, help="Tuples per second of R, in the experiment where R is fast.")] = 30_000,
    slow: Annotated[int, typer.Option(min=10, help="Tuples per second of the other streams in that experiment.")] = 300,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each of these two experiments, with an adaptive and with a static plan.")] = 3,
    stable: Annotated[int, typer.Option(min=100, help="Tuples per second of each stream, in the experiment without a change.")] = 50_000,
    repeat: Annotated[int, typer.Option(min=1, help="Rounds of that experiment: adaptive, static, static, adaptive.")] = 5,
    out: Out = RESULTS,
) -> None:
    """The paper's two adaptive experiments, and the cost of adapting when nothing changes."""
    names = _names("experiments", experiments, ("selectivity", "store", "cost"))
    _run("adaptive", experiments=names, rate=rate, fast=fast, slow=slow, runs=runs, stable=stable, repeat=repeat, out=out)


@app.command("changes")
def changes(
    rate: Annotated[int, typer.Option(min=10, help="Tuples per second of each of four streams.")] = 500,
    every: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Time between two changes.")] = 1.5,
    out: Out = RESULTS,
) -> None:
    """Twenty queries added to a running job one by one, and removed again."""
    _run("changes", rate=rate, every=every, out=out)


@app.command("expressions")
def expressions(
    rows: Annotated[str, typer.Option(metavar="N,N,…", help="Tuples of a batch, of both streams.")] = "1000,50000",
    batches: Annotated[int, typer.Option(min=3, help="Micro-batches of a run.")] = 12,
    rounds: Annotated[int, typer.Option(min=1, help="Measured runs of each variant, after a warm-up.")] = 3,
    out: Out = RESULTS,
) -> None:
    """The same expression by the evaluator in tasks, by Spark of the joined rows, and by Spark where it reads the streams."""
    _run("expressions", rows=_numbers("rows", rows), batches=batches, rounds=rounds, out=out)


@app.command("generations")
def generations(
    changes: Annotated[int, typer.Option(min=100, help="Changes of a coordinator in process, one per batch.")] = 2_000,
    recorded: Annotated[
        int, typer.Option(min=100, help="Generations that are only recorded; 86,400 is one per second for a day.")
    ] = 86_400,
    out: Out = RESULTS,
) -> None:
    """The size of a checkpoint's generations after a long life, and the time that a start and `run.generations` take then."""
    _run("generations", changes=changes, recorded=recorded, out=out)


@app.command("soak")
def soak(
    minutes: Annotated[float, typer.Option(min=0.5, help="Length of the run.")] = 120.0,
    every: Annotated[float, typer.Option(min=0.5, metavar="SECONDS", help="Time between two changes.")] = 4.0,
    draw: Annotated[bool, typer.Option("--draw", help="Only draw the picture, from the CSV file of an earlier run.")] = False,
    out: Out = RESULTS,
) -> None:
    """A long run with a change every few seconds: memory, files, descriptors and threads over time; all results are checked."""
    _run("soak", minutes=minutes, every=every, draw=draw, out=out)


@app.command("page")
def page(
    minutes: Annotated[int, typer.Option(min=1, max=1000, help="Minutes of the demo's shop; two batches each.")] = 40,
    repeat: Annotated[int, typer.Option(min=1, help="Runs with a page, and as many without.")] = 5,
    out: Out = RESULTS,
) -> None:
    """What an open page costs a run: throughput and processor time with a reader of events and without, in alternation."""
    _run("page", minutes=minutes, repeat=repeat, out=out)


@app.command("kafka")
def kafka(
    servers: Annotated[str, typer.Option(metavar="HOST:PORT", help="A Kafka broker; topics are made there, and deleted.")],
    rate: Annotated[int, typer.Option(min=2, help="Records per second, in the run that measures latency.")] = 2000,
    seconds: Annotated[float, typer.Option(min=1, help="Its length after the warm-up.")] = 30.0,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each kind.")] = 3,
    data: Annotated[Path, typer.Option(help="Where generated data is kept.")] = DATA,
    out: Out = RESULTS,
) -> None:
    """Streams out of Kafka compared with files, and the time from producing a record to reading its result."""
    _run("kafka", servers=servers, rate=rate, seconds=seconds, repeat=repeat, data=data, out=out)


def _run(module: str, **options: Any) -> None:
    try:
        run = import_module(f"clash_bench.{module}").run
    except ModuleNotFoundError as error:
        missing = error.name or "a module"
        if missing.split(".")[0] in ("clash", "clash_bench"):  # the clone and the installed package are of different versions
            raise ClashError("this benchmark is not part of this version", missing, "see `clash bench --help`") from None
        raise ClashError("a package is missing", missing, "pip install 'clash-on-spark[bench]'") from None
    run(**options)


def _numbers(option: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 0 < len(part) < 7 and int(part) > 0 for part in parts):
        raise OptionError(f"not a list of positive numbers: --{option}", repr(text), f"write --{option} 3,4,5")
    return tuple(int(part) for part in parts)


def _names(option: str, text: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(","))
    for part in parts:
        if part not in allowed:
            raise OptionError(f"unknown value of --{option}", repr(part), f"write one or more of {', '.join(allowed)}, with commas between")
    return parts
