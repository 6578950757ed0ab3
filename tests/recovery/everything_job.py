"""The job of test_everything.py, in a process of its own that can be killed: `everything_job.py MASTER FOLDER`, one line in per start.

In: steps, the changes that are requested one after the other; after each, one more file of each stream arrives. Without steps all of them
do, and the run ends with them. version: that of the reference table. Out: what can be read at the end, and the generations.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import everything_queries as queries

import clash
from job import environment, session, tell


def main(master: str, data: Path) -> None:
    spark = session(master)
    tell({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        environment(spark, asked)
        tell(play(spark, data, asked))


def play(spark: Any, data: Path, asked: dict[str, Any]) -> dict[str, Any]:
    steps, version = asked.get("steps"), [asked["version"]]
    engine = clash.Engine(spark, asked["checkpoint"], workers=2, epoch=1)
    for stream in "RS":
        df = spark.readStream.schema(queries.COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(data / stream))
        engine.stream(stream, df, time="ts", window=f"{queries.WINDOW} seconds", lateness=f"{queries.LATENESS} seconds", keep="all")
    engine.table("N", lambda: spark.range(queries.KEYS_OF_TABLE).selectExpr("id AS k", f"{version[-1]}L AS version"))
    engine.query("projected", queries.PROJECTED, sink=clash.sinks.Parquet(f"{asked['out']}/projected"))
    engine.query("union", queries.UNION)
    engine.query("totals", queries.TOTALS, sink=clash.sinks.Parquet(f"{asked['out']}/totals"), mode="update")
    engine.query("windows", queries.WINDOWS, mode="append")
    engine.query("named", queries.NAMED)
    if steps is None:
        release(data, all_of_them=True)
    run = engine.start(available_now=steps is None)
    for step in steps or ():
        change(run, step, version)
        release(data)
        run.process_all_available()
    if steps is not None:
        run.stop()
    run.await_termination()
    names = ["projected", "union", "windows", "named", *(["added"] if any("added" in g["queries"] for g in run.generations) else [])]
    found = {name: [[str(value) for value in row] for row in run.results(name).collect()] for name in names}
    return {"found": found, "generations": [[g["batch"], "added" in g["queries"]] for g in run.generations], "batch": run.progress["batch"]}


def change(run: Any, step: str, version: list[int]) -> None:
    if step == "query":
        if "added" in run.queries:
            run.remove_query("added")
        else:
            run.add_query("added", queries.ADDED)
    elif step == "refresh":
        version.append(version[-1] + 1)
        run.refresh("N")
    elif step == "rescale":
        run.rescale(3 if run.generations[-1]["workers"] < 3 else 1)


def release(data: Path, all_of_them: bool = False) -> None:
    """Files get their names in their order, R's first: a kill between the two leaves S's for later."""
    hidden = sorted(data.glob("*/.*.parquet"), key=lambda file: (file.name, file.parent.name))
    for file in hidden if all_of_them else hidden[:2]:
        file.rename(file.with_name(file.name[1:]))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
