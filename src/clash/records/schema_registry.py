"""Schemas from a schema registry, by its REST interface (Confluent's, which others have, too)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from clash.errors import OptionError, SourceError

_TIMEOUT = 10.0
_NOT_FOUND = 404


def schemas_from_registry(
    url: str, *, ids: Iterable[int] = (), subject: str | None = None, timeout: float = _TIMEOUT
) -> tuple[tuple[int, str], ...]:
    """Avro schemas by id, as `RecordFormat.registry` has them: those with the given ids, and the latest of the subject.

    The text is empty for an id that the registry does not have: records with such an id are rejected. Raises OptionError for an address or
    a subject that is wrong, and SourceError if the registry does not answer.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise OptionError("a schema registry has an http address", url, "write http://host:8081")
    found = {}
    if subject is not None:
        answer = _get(url, f"subjects/{quote(subject, safe='')}/versions/latest", timeout)
        if answer is None:
            raise OptionError(
                "the schema registry has no such subject", f"{subject} at {url}", "the subject of a topic's values is mostly TOPIC-value"
            )
        found[int(answer["id"])] = _avro(answer, url)
    for id in ids:
        answer = _get(url, f"schemas/ids/{id}", timeout)
        found[id] = "" if answer is None else _avro(answer, url)
    return tuple(sorted(found.items()))


def _avro(answer: dict[str, Any], url: str) -> str:
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO" or answer.get("references"):
        what = f"{kind} schema" if kind != "AVRO" else "schema that refers to other subjects"
        raise OptionError("this schema of the registry cannot be read", f"a {what} at {url}", "register an Avro schema that is complete")
    return str(answer["schema"])


def _get(url: str, path: str, timeout: float) -> dict[str, Any] | None:
    """The answer, or None if there is no such thing."""
    request = Request(f"{url.rstrip('/')}/{path}", headers={"Accept": "application/vnd.schemaregistry.v1+json"})
    try:
        with urlopen(request, timeout=timeout) as response:
            answer = json.load(response)
    except HTTPError as error:
        with error:  # it holds the connection
            if error.code == _NOT_FOUND:
                return None
            raise _unavailable(url, f"{error.code} {error.reason}") from None
    except (URLError, HTTPException, OSError) as error:
        raise _unavailable(url, str(getattr(error, "reason", error)) or type(error).__name__) from None
    except ValueError:
        raise _unavailable(url, "the answer is not JSON") from None
    if not isinstance(answer, dict) or "schema" not in answer:
        raise _unavailable(url, "the answer has no schema")
    return answer


def _unavailable(url: str, why: str) -> SourceError:
    return SourceError(
        "the schema registry does not answer", f"{url}: {why}", "check its address, and that this host may reach it; then start again"
    )
