"""Files in an object store that speaks S3: read and written through Arrow, which has no conditional writes. Those are our own requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any, NamedTuple

from clash.state.arrow_storage import ArrowStorage, connect
from clash.state.new_files import check_same
from clash.state.paths import check_name
from clash.state.s3_requests import Answer, S3Requests

S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})  # s3a and s3n are Hadoop's
_REFUSED = frozenset({409, 412})  # the condition does not hold; 409: another write is in work


class ObjectVersion(NamedTuple):
    content: bytes
    version: str
    """The entity tag, which changes with the content."""
    age: float
    """Seconds since it was written, by the store's clock."""


class S3Storage(ArrowStorage):
    """A storage below a folder of a bucket."""

    @classmethod
    def open(cls, uri: str) -> S3Storage:
        """`uri` as Arrow writes it, or with the scheme s3a, which Spark knows."""
        _, colon, rest = uri.partition(":")
        mark = "&" if "?" in rest else "?"
        small_files_at_once = f"{mark}allow_delayed_open=true"  # one request for a small file instead of three
        return cls(*connect(uri, f"s3{colon}{rest}{small_files_at_once}"), uri=uri)

    def write_new(self, path: str, buffers: Sequence[Any]) -> int:
        content = b"".join(buffers)
        if self.put_if(path, content, None) is None:
            return check_same(self, path, content)
        return len(content)

    def put_if(self, path: str, content: bytes, version: str | None) -> str | None:
        """Write a file if it has this version still, or with None if there is none; its new version, or None if it was not written.

        After a lost answer the write is tried again, and then refused because of itself: the caller compares the content.
        """
        condition = {"if-none-match": "*"} if version is None else {"if-match": version}
        answer = self._send("PUT", path, condition, content)
        if answer.status in _REFUSED or answer.code == "NoSuchKey":
            return None
        with self._errors_of("written", path):
            _expect_success(answer)
        return answer.headers["etag"]

    def read_version(self, path: str) -> ObjectVersion | None:
        """A file with its version; None if there is none."""
        answer = self._send("GET", path)
        if answer.code == "NoSuchKey":
            return None
        with self._errors_of("read", path):
            _expect_success(answer)
        written, now = (parsedate_to_datetime(answer.headers[name]) for name in ("last-modified", "date"))
        return ObjectVersion(answer.body, answer.headers["etag"], (now - written).total_seconds())

    def delete_if(self, path: str, version: str) -> None:
        """Delete a file if it has this version still."""
        answer = self._send("DELETE", path, {"if-match": version})
        if answer.status not in _REFUSED and answer.code != "NoSuchKey":
            with self._errors_of("deleted", path):
                _expect_success(answer)

    @cached_property
    def _requests(self) -> S3Requests:
        return S3Requests(self.uri, self.root.partition("/")[0], self.filesystem.region)

    def _send(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Answer:
        key = (self._prefix + check_name(path)).partition("/")[2]
        with self._errors_of("written" if method == "PUT" else "read", path):
            return self._requests.send(method, key, headers, body)


def _expect_success(answer: Answer) -> None:
    if answer.status >= 300:
        raise OSError(f"the store answers {answer.status} {answer.code}".strip())
