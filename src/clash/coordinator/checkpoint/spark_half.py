"""Spark's half of a checkpoint: sealed with every batch, verified at a start, and taken back to its seal.

    metadata              the identity of the Spark query
    offsets/N             up to where each source is read by batch N: one line per source
    commits/N             Spark knows that batch N is done
    sources/K/I           the log of source K: of files, which ones there are; of other sources, at most where it began (I = 0)
    sources/K/I.compact   the same, with all that older files of the log say

When Spark hands over batch N it has written `offsets/N` and the logs of the sources up to there, and nothing behind them; `commits/N`
follows when the batch is done. A restart reads the last two offsets, the logs of sources since their newest compaction, and the last
commit.

Invariant: what a restart reads is what the seal of the last batch says, or the start is refused and changes nothing. What Spark has written
behind the seal belongs to a batch that was not begun here: it is removed, and Spark plans that batch again. A commit may be missing: Spark
then repeats the batch, which is committed on our side, and gets its recorded result.
"""

from __future__ import annotations

import json
import logging
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from clash.coordinator.checkpoint.offset_entry import OffsetEntry
from clash.coordinator.checkpoint.spark_seal import SourceLogSeal, SparkSeal
from clash.errors import CheckpointError, StateError
from clash.state.json_records import RESTORE
from clash.state.local_storage import LocalStorage
from clash.state.storage import Storage, open_storage

_LOG = logging.getLogger("clash")
OFFSETS, COMMITS, SOURCES = "offsets", "commits", "sources"
_METADATA, _COMPACT = "metadata", ".compact"
_SOURCE_FILE = re.compile(rf"([^/]+)/(\d+)(?:{re.escape(_COMPACT)})?")
_COMMIT = re.compile(rb"v\d+\n(\{.*\})\s*", re.DOTALL)
_NAMED_SOURCE = re.compile(r"([A-Za-z_]\w*):")
_LOG_OFFSET = re.compile(r'(?:([A-Za-z_]\w*|\d+):)?\{"logOffset":(\d+)\}')
_PARALLEL_READS = 8  # from storages that are not local, where a read takes long and most of that is waiting


class SparkHalf:
    """`folder`: where Spark keeps its half. A start calls `check`, then `remove_unsealed`; every batch `seal`; and a run that starts the
    Spark query again `refuse_changes`."""

    def __init__(self, folder: str, storage: Storage | None = None) -> None:
        self.folder = folder
        self._storage = storage or open_storage(folder)
        self._sources: dict[str, SourceLogSeal] | None = None  # as far as sealed; None: nothing is known of what is on disk
        self._metadata: int | None = None  # its checksum, as sealed first: what changes while a run goes on fails the next start
        self._offsets: dict[int, int] = {}  # by batch the same of the two entries that were sealed last
        self._unsealed: list[str] = []

    # ---- a batch -----------------------------------------------------------------------------------------------

    def seal(self, batch: int) -> SparkSeal:
        """The seal of a batch that Spark hands over. Only new files are read."""
        if self._sources is None:
            self._sources = self._logs_on_disk()
        content = self._read(f"{OFFSETS}/{batch}")
        known = self._sources
        folders = [*known, *(name for name in _source_folders(content) if name not in known)]
        if isinstance(self._storage, LocalStorage):
            logs = [_extended(self._storage, name, known.get(name)) for name in folders]
        else:
            with ThreadPoolExecutor(_PARALLEL_READS) as pool:
                logs = list(pool.map(lambda name: _extended(self._storage, name, known.get(name)), folders))
        self._sources = {name: log for name, log in zip(folders, logs, strict=True) if log is not None}
        self._refuse_incomplete(content, self._sources, batch, f"start again: batch {batch} was not begun, and Spark plans it once more")
        previous = self._offsets.get(batch - 1)
        if previous is None and batch > 0:
            previous = _offsets_crc(self._read(f"{OFFSETS}/{batch - 1}"))
        if self._metadata is None:
            self._metadata = zlib.crc32(self._read(_METADATA))
        seal = SparkSeal(self._metadata, _offsets_crc(content), previous, dict(self._sources))
        self._remember(batch, seal)
        return seal

    def _remember(self, batch: int, seal: SparkSeal) -> None:
        self._offsets = {batch: seal.offsets} | ({} if seal.previous is None else {batch - 1: seal.previous})

    def refuse_changes(self) -> None:
        """Raises StateError if a file that is sealed has changed meanwhile. A run that starts the Spark query again calls it first: Spark
        would continue from what is on disk."""
        if self._offsets and self._metadata is not None and self._sources is not None:
            last = max(self._offsets)
            seal = SparkSeal(self._metadata, self._offsets[last], self._offsets.get(last - 1), self._sources)
            self._verify(seal, last, RESTORE, with_previous=True)

    # ---- a start -----------------------------------------------------------------------------------------------

    def check(self, last: int, committed: SparkSeal | None, decided: SparkSeal | None) -> None:
        """Refuses a half that does not fit the last committed batch, or that has changed since; it changes nothing.

        `committed`: the seal of the last committed batch; `decided`: of the batch after it, if that was begun. Without a seal, as in a
        checkpoint of an older version, only the numbers of batches are compared.
        """
        offsets, commits = self._numbers(OFFSETS), self._numbers(COMMITS)
        newest = max(offsets, default=-1)
        self._check_fit(last, newest, max(commits, default=-1))
        if committed is not None:
            self._verify(committed, last, RESTORE, with_previous=newest == last)
            self._refuse_incomplete(self._read(f"{OFFSETS}/{last}"), committed.sources, last, RESTORE)
        planned = newest == last + 1  # Spark has planned the next batch
        if planned and decided is not None:
            path = self._storage.label(f"{OFFSETS}/{newest}")
            hint = f"batch {newest} is not committed: remove {path}, and it is planned again; or {RESTORE}"
            self._verify(decided, newest, hint, with_previous=True)
        sealed = decided if planned and decided is not None else committed
        self._sources = None if sealed is None else dict(sealed.sources)
        self._metadata = None if sealed is None else sealed.metadata
        self._unsealed = [*self._damaged_commits(commits)]
        is_sealed = sealed is not None or last < 0
        if is_sealed and not (planned and decided is None and last > 0 and last - 1 not in offsets):  # Spark needs two entries
            self._unsealed += self._behind_seal(sealed, newest if planned and decided is None else None)

    def has_commit(self, batch: int) -> bool:
        """Whether Spark knows that the batch is done: it does not repeat it."""
        return self._storage.exists(f"{COMMITS}/{batch}")

    def has_beginning(self) -> bool:
        """Whether a source has recorded where it began, which it may do before the first batch."""
        return any(number == 0 and _is_beginning(self._read(path)) for _, number, path in self._source_files())

    def remove_unsealed(self) -> None:
        """Removes what `check` found behind the seal, and commits that cannot be read."""
        if self._unsealed:
            _LOG.debug("Spark plans its next batch again; removed from %s: %s", self.folder, ", ".join(self._unsealed))
        self._storage.delete(name for path in self._unsealed for name in (path, _hadoop_checksum(path)))
        self._unsealed = []

    def _check_fit(self, last: int, newest: int, committed: int) -> None:
        if last <= newest <= last + 1 and committed <= last and (last < 0 or self._storage.exists(_METADATA)):
            return
        planned = "has planned no batch" if newest < 0 else f"has planned batch {newest}"
        done = "has committed none" if committed < 0 else f"has committed batch {committed}"
        ours = "no batch is committed" if last < 0 else f"batch {last} is the last that is committed"
        raise CheckpointError(
            "the two halves of the checkpoint do not fit together",
            f"Spark {planned} and {done} in {self.folder}, but {ours} beside it",
            RESTORE,
        )

    def _verify(self, seal: SparkSeal, batch: int, hint: str, with_previous: bool) -> None:
        """Raises StateError for the first file that is not as it was sealed."""
        self._compare(_METADATA, seal.metadata, zlib.crc32, batch, hint)
        if with_previous and seal.previous is not None:
            self._compare(f"{OFFSETS}/{batch - 1}", seal.previous, _offsets_crc, batch, hint)
        self._compare(f"{OFFSETS}/{batch}", seal.offsets, _offsets_crc, batch, hint)
        for name, log in seal.sources.items():
            for number, crc in enumerate(log.crcs, log.first):
                path = _log_file(self._storage, name, number) or f"{SOURCES}/{name}/{number}"
                self._compare(path, crc, partial(_log_file_crc, path), batch, hint)

    def _refuse_incomplete(self, offsets: bytes, logs: Mapping[str, SourceLogSeal], batch: int, hint: str) -> None:
        """Raises StateError if an entry of a log of files is gone that an entry of the offset log refers to: Spark would take the files of
        that entry for new ones. Lines may share a source: a log is complete if any line says so."""
        ends = _log_ends(offsets)
        for name, log in logs.items():
            if log.last < ends.get(name, -1) and log.last not in ends.values():
                what = "a file of Spark's half of the checkpoint is missing"
                path = self._storage.label(f"{SOURCES}/{name}/{log.last + 1}")
                raise StateError(what, f"{path}; batch {batch} depends on it", hint)

    def _compare(self, path: str, crc: int, compute: Callable[[bytes], int], batch: int, hint: str) -> None:
        if not self._storage.exists(path):
            what = "a file of Spark's half of the checkpoint is missing"
        elif compute(self._read(path)) != crc:
            what = "a file of Spark's half of the checkpoint has changed"
        else:
            return
        raise StateError(what, f"{self._storage.label(path)}; batch {batch} depends on it", hint)

    def _damaged_commits(self, commits: Collection[int]) -> Iterator[str]:
        """The newest commits, as long as they cannot be read: a power failure may leave an empty one."""
        for batch in sorted(commits, reverse=True):
            path = f"{COMMITS}/{batch}"
            if _is_commit(self._read(path)):
                return
            _LOG.warning(
                "%s is damaged and removed: Spark repeats batch %d, and gets its recorded result", self._storage.label(path), batch
            )
            yield path

    def _behind_seal(self, seal: SparkSeal | None, planned: int | None) -> Iterator[str]:
        """What Spark has written since. Where a source began is kept: "from the latest on" would mean later ones the next time."""
        if planned is not None:
            yield f"{OFFSETS}/{planned}"
        if seal is None and self._storage.exists(_METADATA):
            yield _METADATA
        for name, number, path in self._source_files():
            log = None if seal is None else seal.sources.get(name)
            if (log is None or number > log.last) and not (number == 0 and _is_beginning(self._read(path))):
                yield path

    # ---- reading -----------------------------------------------------------------------------------------------

    def _read(self, path: str) -> bytes:
        return bytes(self._storage.read(path, mapped=False))

    def _numbers(self, folder: str) -> frozenset[int]:
        return frozenset(int(name) for name in self._storage.list(folder) if name.isdecimal())

    def _source_files(self) -> Iterator[tuple[str, int, str]]:
        """The folder, the number and the path of every file in the logs of sources."""
        for name in self._storage.list(SOURCES, recursive=True):
            if match := _SOURCE_FILE.fullmatch(name):
                yield match[1], int(match[2]), f"{SOURCES}/{name}"

    def _logs_on_disk(self) -> dict[str, SourceLogSeal]:
        """The logs before the batch that is sealed first, in a checkpoint without a seal."""
        newest: dict[str, int] = {}
        for name, number, path in self._source_files():
            if path.endswith(_COMPACT):
                newest[name] = max(newest.get(name, 0), number)
        return {name: SourceLogSeal(number, ()) for name, number in newest.items()}


def _source_folders(offsets: bytes) -> Iterator[str]:
    """The folders that the sources of an entry of the offset log may have: a source without files has none. They are numbered, except for
    sources that a user has named; several lines may share a source."""
    for number, line in enumerate(OffsetEntry.parse(offsets).without_new_sources().lines):
        yield str(number)
        if named := _NAMED_SOURCE.match(line):
            yield named[1]


def _log_ends(offsets: bytes) -> dict[str, int]:
    """By folder, the last entry in the log of a source of files, as an entry of the offset log says."""
    ends = {}
    for number, line in enumerate(OffsetEntry.parse(offsets).lines):
        if match := _LOG_OFFSET.fullmatch(line):
            ends[str(number) if match[1] is None else match[1]] = int(match[2])
    return ends


def _offsets_crc(content: bytes) -> int:
    return zlib.crc32(OffsetEntry.parse(content).without_new_sources().content())


def _log_file(storage: Storage, source: str, number: int) -> str | None:
    """The path of a file in the log of a source, if there is one."""
    path = f"{SOURCES}/{source}/{number}"
    return next((name for name in (path, path + _COMPACT) if storage.exists(name)), None)


def _log_file_crc(path: str, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(path.encode()))


def _extended(storage: Storage, source: str, log: SourceLogSeal | None) -> SourceLogSeal | None:
    """The log of a source with what was written since; None if the source keeps no files."""
    first, crcs = (0, []) if log is None else (log.first, list(log.crcs))
    while (path := _log_file(storage, source, first + len(crcs))) is not None:
        if path.endswith(_COMPACT):
            first, crcs = first + len(crcs), []
        crcs.append(_log_file_crc(path, bytes(storage.read(path, mapped=False))))
    return SourceLogSeal(first, tuple(crcs)) if crcs else None


def _is_commit(content: bytes) -> bool:
    match = _COMMIT.fullmatch(content)
    try:
        return match is not None and isinstance(json.loads(match[1]), dict)
    except ValueError:
        return False


def _is_beginning(content: bytes) -> bool:
    """Whether a file says where a source began: logs of files have paths."""
    return bool(content.strip()) and b'"path"' not in content


def _hadoop_checksum(path: str) -> str:
    """The file in which Hadoop's local file system may keep the checksum of another."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"
