"""Physical plans on disk, each under the name of its content, so that equal plans are one file."""

from __future__ import annotations

from collections.abc import Collection

from clash.plan.codecs import PHYSICAL_PLAN
from clash.plan.physical import PhysicalPlan
from clash.protocol.plan_files import FOLDER, plan_path
from clash.state.storage import Storage


class PlanFiles:
    """The plan files of a checkpoint; only the process that has its lock writes and deletes them."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._paths = {f"{FOLDER}/{name}" for name in storage.list(FOLDER)}
        self._written: set[str] = set()  # by this process: what it has found may be damaged

    def write(self, plan: PhysicalPlan) -> str:
        """The path of the plan's file, which is written once."""
        text = PHYSICAL_PLAN.dumps(plan).encode()
        path = plan_path(text)
        if path not in self._written:
            self._storage.write(path, [text], durable=True)
            self._paths.add(path)
            self._written.add(path)
        return path

    def remove_except(self, used: Collection[str]) -> list[str]:
        """The paths of all other plans, which the caller deletes: no batch to come needs them."""
        obsolete = sorted(self._paths - set(used))
        self._paths -= set(obsolete)
        self._written -= set(obsolete)
        return obsolete
