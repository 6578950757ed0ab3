"""Errors as problem documents (RFC 9457), with the three parts of every error: what, detail, hint."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from starlette.responses import Response

from clash.errors import ClashError

MEDIA_TYPE = "application/problem+json"


class ProblemError(ClashError):
    """An error with the status of its response."""

    def __init__(self, status: int, what: str, detail: str = "", hint: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(what, detail, hint)
        self.status, self.headers = status, dict(headers or {})


def three_parts(error: ClashError, hide: Callable[[str], str]) -> dict[str, str]:
    return {"what": hide(error.what), "detail": hide(error.detail), "hint": hide(error.hint)}


def problem_response(error: ClashError, status: int, hide: Callable[[str], str] = str) -> Response:
    """`title` repeats `what`, because readers of problem documents look for it."""
    parts = three_parts(error, hide)
    body = {"type": "about:blank", "status": status, "title": parts["what"], **parts}
    headers = error.headers if isinstance(error, ProblemError) else {}
    return Response(json.dumps(body, ensure_ascii=False), status, {**headers, "Cache-Control": "no-store"}, MEDIA_TYPE)
