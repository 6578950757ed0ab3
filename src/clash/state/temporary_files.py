"""What storages share that write files under temporary names: such files are not listed, and are swept when their writers are gone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from clash.state.paths import is_temporary


class WithTemporaryFiles(ABC):
    """A part of a storage. Its methods hold what `clash.state.storage.Storage` says of them."""

    @abstractmethod
    def _walk(self, folder: str, recursive: bool) -> Iterable[str]:
        """All files in a folder, temporary ones too, as paths relative to it."""

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None: ...

    def list(self, folder: str = "", recursive: bool = False) -> list[str]:
        return sorted(name for name in self._walk(folder, recursive) if not is_temporary(name))

    def sweep(self, folder: str = "") -> int:
        temporary = [name for name in self._walk(folder, recursive=True) if is_temporary(name)]
        self.delete(f"{folder}/{name}" if folder else name for name in temporary)
        return len(temporary)
