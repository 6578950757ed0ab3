"""The log of a command: text, or JSON with the position of the run in every line."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

_QUERY = re.compile(r"\bquery (\w+)")


class LogPosition:
    """Where the run is, for lines of the log; `run` is set when there is one."""

    def __init__(self, job: str) -> None:
        self.job = job
        self.run: Any = None

    def read(self) -> dict[str, Any]:
        known = {"batch": None, "epoch": None, "generation": None} if self.run is None else self.run.position
        return {"job": self.job, **known}


class JsonFormatter(logging.Formatter):
    """Every line is an object with time, level, message, job, batch, epoch, generation and query; a value that is not known is null."""

    def __init__(self, position: LogPosition, hide: Callable[[str], str]) -> None:
        super().__init__()
        self._position, self._hide = position, hide

    def format(self, record: logging.LogRecord) -> str:
        message = self._hide(record.getMessage())
        named = getattr(record, "query", None) or next(iter(_QUERY.findall(message)), None)
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
            **self._position.read(),
            "query": named,
        }
        if record.exc_info:
            line["exception"] = self._hide(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


class _TextFormatter(logging.Formatter):
    def __init__(self, hide: Callable[[str], str]) -> None:
        super().__init__("%(levelname)s: %(message)s")
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        return self._hide(super().format(record))


class _StandardError(logging.StreamHandler[Any]):
    """Writes to what standard error is at the time: a live view replaces it, so that lines appear above the view."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, _stream: Any) -> None:
        raise AttributeError("the stream is standard error")


def configure_logging(kind: Literal["text", "json"], position: LogPosition, hide: Callable[[str], str]) -> None:
    """Our own lines go to standard error. JSON has a line per batch, text only what needs attention."""
    handler = _StandardError()
    handler.setFormatter(JsonFormatter(position, hide) if kind == "json" else _TextFormatter(hide))
    logger = logging.getLogger("clash")
    for old in logger.handlers[:]:
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.propagate = False
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO if kind == "json" else logging.WARNING)
