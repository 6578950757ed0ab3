"""Small records as JSON files: equal data give equal bytes, and a damaged file is refused by name."""

from __future__ import annotations

import json
from typing import Any

from clash.errors import StateError
from clash.state.storage import Storage


def write_json(storage: Storage, path: str, data: Any, durable: bool = True) -> int:
    """The size in bytes. Only what JSON knows: NaN and keys that are not strings are errors of the caller."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return storage.write(path, [text.encode() + b"\n"], durable=durable)


def read_json(storage: Storage, path: str) -> Any:
    """Read afresh: other than a container, a record may have been written again under the same name."""
    content = storage.read(path, mapped=False).to_pybytes()
    try:
        if not content.endswith(b"\n"):
            raise ValueError("its end is missing")
        return json.loads(content.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        hint = "restore that file from a copy, or start with an empty checkpoint"
        raise StateError("a record is corrupt", f"{storage.label(path)}: {error}", hint) from error


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
