"""A start that is refused changes nothing on disk; a checkpoint with a damaged, lost or older file is refused by the name of the file."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from clash.coordinator.control.job import JobSpec, QueryRequest, SinkSpec
from clash.coordinator.coordinator import Coordinator
from clash.errors import CheckpointError, ClashError, OptionError, StateError
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash.workers.loaded_plan import load_plan

STREAMS = tuple(Stream.of(name, {"a": "bigint", "b": "bigint"}) for name in "RS")
TEXT = "SELECT R.a, S.b FROM R JOIN S ON R.a = S.a"
OTHER = "SELECT R.b FROM R JOIN S ON R.b = S.b"
BATCHES = 4


def tables(batch: int) -> dict[str, pa.Table]:
    rng = Random(batch)
    return {name: pa.table({"a": rng.choices(range(3), k=5), "b": rng.choices(range(9), k=5)}) for name in "RS"}


def job(folder: Path, text: str = TEXT) -> JobSpec:
    return JobSpec(STREAMS, (QueryRequest("q", text, (), SinkSpec("parquet", str(folder / "out"))),), workers=2, epoch=1, adaptive=False)


def start(folder: Path, program: JobSpec | None = None, timezone: str = "UTC") -> InProcessEngine:
    running = InProcessEngine(STREAMS, {"unused": TEXT}, timezone=timezone, tuning={"relayout_rows": 8})
    running.uri, running.job = str(folder / "c"), program or job(folder)
    running.coordinator = running._new_coordinator()
    return running


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run after some batches and changes, killed in its last batch, with what killed writers leave."""
    folder = tmp_path_factory.mktemp("sample")
    running = start(folder)
    for batch in range(BATCHES):
        if batch == 1:
            running.add_query("p", OTHER)
        if batch == 2:
            running.rescale(3)
        running.batch(tables(batch))
    os.environ["CLASH_FAILPOINT"] = "before-manifest!raise"
    try:
        with pytest.raises(RuntimeError):
            running.batch(tables(BATCHES))
    finally:
        del os.environ["CLASH_FAILPOINT"]
    identity = running.coordinator.sources.identity
    for leftover in (
        "c/state/s_R/.1-2-0badcafe.tmp",
        f"c/state/s_R/b00000000{BATCHES}-0000dead-c0-s0-r1-ff.clash",
        f"out/_staging/part-00000000{BATCHES}-{identity}-0000dead-r1-w0-ff-0.parquet",
        "c/plans/0123456789abcdef.json",
        f"c/batches/00000000{BATCHES - 1}.json",
    ):
        (folder / leftover).parent.mkdir(exist_ok=True)
        (folder / leftover).write_bytes(b"left over")
    return folder


def copied(sample: Path, folder: Path) -> Path:
    shutil.copytree(sample, folder, dirs_exist_ok=True)
    for path in [*folder.glob("c/generations/*.json"), *folder.glob("c/*.json"), *folder.glob("c/batches/*4.json")]:
        first = path.read_text().partition("\n")[0].replace(str(sample), str(folder)) + "\n"  # the sink's folder is recorded
        path.write_text(f'{first}{{"crc32":"{zlib.crc32(first.encode()):08x}"}}\n')
    return folder


def content(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def edit(path: Path, **changes: object) -> None:
    """An edit by somebody who knows about checksums."""
    data = {**json.loads(path.read_text().partition("\n")[0]), **changes}
    line = json.dumps(data, separators=(",", ":"), sort_keys=True) + "\n"
    path.write_text(f'{line}{{"crc32":"{zlib.crc32(line.encode()):08x}"}}\n')


REFUSALS: dict[str, tuple[type[ClashError], Callable[[Path], object]]] = {
    "another time zone": (CheckpointError, lambda f: start(f, timezone="Europe/Berlin")),
    "a stream is missing": (CheckpointError, lambda f: start(f, replace(job(f), streams=STREAMS[:1]))),
    "another strategy": (CheckpointError, lambda f: start(f, replace(job(f), strategy="independent"))),
    "a query that does not parse": (ClashError, lambda f: start(f, job(f, "SELECT R.a FROM R JOIN S ON R.x = S.a"))),
    "other columns in a folder": (OptionError, lambda f: start(f, job(f, OTHER))),
    "another format": (CheckpointError, lambda f: (edit(f / "c" / "job.json", format=5), start(f))[1]),
    "a format that a flipped digit makes": (StateError, lambda f: (_replace(f / "c/job.json", b'"format":8', b'"format":9'), start(f))[1]),
    "another record in place of the checkpoint's": (
        StateError,
        lambda f: (shutil.copy(f / "c/_clash.json", f / "c/job.json"), start(f))[1],
    ),
    "a caller's check": (CheckpointError, lambda f: Coordinator(str(f / "c"), job(f), check=_refuse)),
    "a sink in the checkpoint": (
        OptionError,
        lambda f: start(f, replace(job(f), queries=(QueryRequest("q", TEXT, (), SinkSpec("parquet", str(f / "c" / "x"))),))),
    ),
    "a folder is missing": (StateError, lambda f: (shutil.rmtree(f / "out"), start(f))[1]),
    "a later result": (
        CheckpointError,
        lambda f: (
            shutil.copy(next((f / "out").glob("*000000001-*")), f / "out" / f"part-000000009-{_identity(f)}-00000000-r1-w0-0.parquet"),
            start(f),
        )[1],
    ),
    "a damaged marker of the checkpoint": (StateError, lambda f: (_flip(f / "c/_clash.json"), start(f))[1]),
    "a damaged marker of a folder": (StateError, lambda f: (_flip(f / "out/_clash.json"), start(f))[1]),
    "a lost container": (StateError, lambda f: (_live(f).unlink(), start(f))[1]),
    "a container of another manifest": (StateError, lambda f: (shutil.copy(*_two_live(f)), start(f))[1]),
    "a lost manifest": (StateError, lambda f: (next((f / "c/manifests").iterdir()).unlink(), start(f))[1]),
    "a lost record of the checkpoint": (StateError, lambda f: ((f / "c/job.json").unlink(), start(f))[1]),
    "a lost generation": (StateError, lambda f: (max((f / "c/generations").glob("00000?.json")).unlink(), start(f))[1]),
    "a generation in place of another": (
        StateError,
        lambda f: (shutil.copy(*(choose((f / "c/generations").glob("00000?.json")) for choose in (min, max))), start(f))[1],
    ),
    "a manifest in place of another": (StateError, lambda f: (edit(_manifest(f), batch=1), start(f))[1]),
    "a lost history of generations": (StateError, lambda f: (shutil.rmtree(f / "c/generations/history"), start(f))[1]),
    "a manifest of another generation": (
        StateError,
        lambda f: (edit(f / f"c/batches/00000000{BATCHES}.json", generation=0), edit(_manifest(f), generation=0), start(f))[2],
    ),
    "a lost plan of a decided batch": (StateError, lambda f: (_decided_plan(f).unlink(), start(f))[1]),
    "a damaged plan": (StateError, lambda f: (_flip(_decided_plan(f)), start(f))[1]),
    "a damaged manifest": (StateError, lambda f: (_flip(_manifest(f)), start(f))[1]),
    "a damaged decision": (StateError, lambda f: (_flip(f / f"c/batches/00000000{BATCHES}.json"), start(f))[1]),
    "a damaged container": (StateError, lambda f: (_flip(_live(f)), start(f))[1]),
    "rows of a container that differ": (StateError, lambda f: (_edit_containers(f, rows=1), start(f))[1]),
    "arrivals of a container that differ": (StateError, lambda f: (_edit_containers(f, last_arrival=1 << 40), start(f))[1]),
    "a slot of a container that differs": (StateError, lambda f: (_edit_containers(f, slot=0), start(f))[1]),
}


def _refuse(recovered: object) -> None:
    raise CheckpointError("refused", "for a test", "none")


def _identity(folder: Path) -> str:
    return str(json.loads((folder / "c/job.json").read_text().partition("\n")[0])["identity"])


def _manifest(folder: Path) -> Path:
    return next((folder / "c/manifests").iterdir())


def _containers(folder: Path) -> list[dict[str, object]]:
    return json.loads(_manifest(folder).read_text().partition("\n")[0])["containers"]  # type: ignore[no-any-return]


def _live(folder: Path) -> Path:
    return folder / "c" / str(_containers(folder)[-1]["path"])


def _two_live(folder: Path) -> tuple[Path, Path]:
    first, second = _containers(folder)[:2]
    return folder / "c" / str(first["path"]), folder / "c" / str(second["path"])


def _edit_containers(folder: Path, **changes: object) -> None:
    edit(_manifest(folder), containers=[{**record, **changes} for record in _containers(folder)])


def _decided_plan(folder: Path) -> Path:
    decision = json.loads((folder / f"c/batches/00000000{BATCHES}.json").read_text().partition("\n")[0])
    return folder / "c" / str(decision["plan_path"])


def _replace(path: Path, old: bytes, new: bytes) -> None:
    path.write_bytes(path.read_bytes().replace(old, new))


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def test_the_sample_starts_and_is_exact(sample: Path, tmp_path: Path) -> None:
    running = start(copied(sample, tmp_path))
    expected = start(tmp_path / "whole", job(tmp_path / "whole"))
    for batch in range(BATCHES + 2):
        if batch >= BATCHES:
            running.batch(tables(batch))
        expected.batch(tables(batch))
    by_row = [("a", "ascending"), ("b", "ascending")]
    assert running.results("q").sort_by(by_row) == expected.results("q").sort_by(by_row)
    assert not list(tmp_path.glob("[co]*/**/*dead*"))


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refused_start_changes_nothing(sample: Path, tmp_path: Path, reason: str) -> None:
    kind, attempt = REFUSALS[reason]
    folder = copied(sample, tmp_path / "x")
    before: list[dict[str, bytes | None]] = []
    opened = Coordinator.__init__

    def snapshot(self: Coordinator, uri: str, *args: object, **options: object) -> None:
        before.append(content(folder)) if uri.startswith(str(folder)) else None
        opened(self, uri, *args, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Coordinator, "__init__", snapshot)
        with pytest.raises(kind):
            attempt(folder)
    assert len(before) == 1
    assert content(folder) == before[0]


@pytest.mark.parametrize("seed", range(60))
def test_a_flipped_bit_or_a_lost_file_is_refused_or_harmless(sample: Path, tmp_path: Path, seed: int) -> None:
    """Any file of the checkpoint: a start is refused with its name, or the results are exact."""
    rng = Random(seed)
    folder = copied(sample, tmp_path / "x")
    file = rng.choice(sorted(path for path in (folder / "c").rglob("*") if path.is_file()))
    data = bytearray(file.read_bytes())
    if rng.random() < 0.7:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        file.write_bytes(bytes(data))
    else:
        file.unlink()
    before = content(folder)
    try:
        running = start(folder)
        for batch in range(BATCHES, BATCHES + 2):
            running.batch(tables(batch))
    except ClashError as error:
        assert str(folder) in error.detail, str(error)
        assert error.hint
        assert content(folder) == before
        return
    expected = start(tmp_path / "whole", job(tmp_path / "whole"))
    for batch in range(BATCHES + 2):
        expected.batch(tables(batch))
    by_row = [("a", "ascending"), ("b", "ascending")]
    assert running.results("q").sort_by(by_row) == expected.results("q").sort_by(by_row)


def test_a_damaged_plan_that_no_decision_names_is_written_again(tmp_path: Path) -> None:
    """It follows from the generation: nothing is lost with it."""
    running = start(tmp_path)
    running.batch(tables(0))
    for path in (tmp_path / "c/plans").iterdir():
        _flip(path)
    load_plan.cache_clear()  # as in another process
    running.restart()
    running.batch(tables(1))
    assert running.coordinator.last == 1


@pytest.mark.parametrize("name", [".nfs0000000000a1b2c3", "notes.json", "000000002.json~"])
def test_files_that_others_put_beside_records(tmp_path: Path, name: str) -> None:
    """As network file systems, desktops and editors do."""
    running = start(tmp_path)
    running.batch(tables(0))
    running.rescale(3)
    for folder in ("generations", "generations/history", "manifests", "batches", "plans", "late/R", "results"):
        (tmp_path / "c" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "c" / folder / name).write_text("not of clash")
    running.batch(tables(1))
    running.restart()
    running.batch(tables(2))
    assert running.coordinator.last == 2
    assert [each["generation"] for each in running.generations] == [0, 1]
    assert (tmp_path / "c/generations" / name).exists()
