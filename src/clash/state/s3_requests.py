"""Signed requests to an object store that speaks S3, for what Arrow cannot do: conditional writes.

The signature is AWS's version 4. Endpoint and credentials are found where Arrow finds them: in the URI, in the environment, in the files of
the AWS tools. Credentials that a machine gets from its role (EC2, ECS, EKS, SSO) are left to botocore, if that is installed.
"""

from __future__ import annotations

import configparser
import hashlib
import hmac
import http.client
import importlib
import os
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from clash.errors import StateError

_TRIES = 3
_PAUSE = 0.2  # seconds before the second try, twice as many before the third
_TIMEOUT = 4.0  # seconds for one try; all tries fit into what is left of a lease when it is not trusted any more
_SAFE = "-_.~"
_CODE = re.compile(rb"<Code>([^<]*)</Code>")
_MAX_BYTES = 1 << 20  # of an answer: these are small records


class Credentials(NamedTuple):
    key: str
    secret: str
    token: str = ""


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The error's name, if it is one."""
        found = _CODE.search(self.body)
        return found[1].decode(errors="replace") if found else ""


class S3Requests:
    """Requests for the objects of one bucket. `uri`: the storage's, with its options; `region`: as Arrow has found it."""

    def __init__(self, uri: str, bucket: str, region: str) -> None:
        self._uri, self._region = urlsplit(uri), region
        options = {name: values[-1] for name, values in parse_qs(self._uri.query).items()}
        scheme = options.get("scheme", "https")
        endpoint = options.get("endpoint_override") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if endpoint:
            parts = urlsplit(endpoint if "://" in endpoint else f"{scheme}://{endpoint}")
            self._secure, self._host, self._folder = parts.scheme == "https", parts.netloc, f"{parts.path.rstrip('/')}/{bucket}"
        else:
            domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
            self._secure, self._host, self._folder = True, f"s3.{region}.{domain}", f"/{bucket}"

    def send(self, method: str, key: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Answer:
        """The store's answer; OSError if there is none, or none but that it is out of order."""
        credentials = find_credentials(self._uri)
        path = quote(f"{self._folder}/{key}", safe=f"/{_SAFE}")
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_PAUSE * attempt)
            try:
                answer = self._send(method, path, sign(method, self._host, path, self._region, credentials, headers or {}, body), body)
            except (OSError, http.client.HTTPException) as error:
                if attempt == _TRIES - 1:
                    raise OSError(f"{type(error).__name__} {error}".strip()) from error
                continue
            if answer.status < 500 or attempt == _TRIES - 1:
                break
        if answer.status >= 500:
            raise OSError(f"the store answers {answer.status} {answer.code}".strip())
        return answer

    def _send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, timeout=_TIMEOUT)
        try:
            connection.request(method, path, body, {name: value for name, value in headers.items() if name != "host"})
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read(_MAX_BYTES))
        finally:
            connection.close()


def sign(
    method: str, host: str, path: str, region: str, credentials: Credentials, headers: Mapping[str, str], body: bytes
) -> dict[str, str]:
    """The headers of a request, signed. `path` is percent-encoded; `headers` have lower-case names."""
    now = datetime.now(UTC)
    stamp, day = f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}"
    digest = hashlib.sha256(body).hexdigest()
    token = {"x-amz-security-token": credentials.token} if credentials.token else {}
    signed = {**headers, **token, "host": host, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name].strip()}\n" for name in sorted(signed))
    request = hashlib.sha256(f"{method}\n{path}\n\n{lines}\n{names}\n{digest}".encode()).hexdigest()
    scope = f"{day}/{region}/s3/aws4_request"
    key = f"AWS4{credentials.secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{request}".encode(), "sha256").hex()
    return {
        **signed,
        "authorization": f"AWS4-HMAC-SHA256 Credential={credentials.key}/{scope}, SignedHeaders={names}, Signature={signature}",
    }


def find_credentials(uri: SplitResult) -> Credentials:
    """From the URI, the environment, the files of the AWS tools, or botocore."""
    if uri.username and uri.password:
        return Credentials(unquote(uri.username), unquote(uri.password))
    variables = [os.environ.get(f"AWS_{name}", "") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")]
    if variables[0] and variables[1]:
        return Credentials(*variables)
    found = _in_file() or _by_botocore()
    if found is None:
        raise StateError(
            "there are no credentials for S3",
            "none in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), nor in ~/.aws/credentials",
            "set them; for those of a machine's role (EC2, ECS, EKS, SSO), pip install botocore where the program runs",
        )
    return found


def _in_file() -> Credentials | None:
    path = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    parser = configparser.RawConfigParser()
    try:
        parser.read(Path(path).expanduser(), encoding="utf-8")
    except (configparser.Error, OSError, ValueError):
        return None
    profile = os.environ.get("AWS_PROFILE") or "default"
    section = dict(parser.items(profile)) if parser.has_section(profile) else {}
    key, secret = section.get("aws_access_key_id", ""), section.get("aws_secret_access_key", "")
    return Credentials(key, secret, section.get("aws_session_token", "")) if key and secret else None


def _by_botocore() -> Credentials | None:
    try:
        session = _session()
    except ImportError:
        return None
    found = session.get_credentials()
    if found is None:
        return None
    frozen = found.get_frozen_credentials()  # which are fetched again when they are about to expire
    return Credentials(frozen.access_key, frozen.secret_key, frozen.token or "")


@cache
def _session() -> Any:
    """One per process: it keeps the credentials of a role, which are fetched over the network."""
    return importlib.import_module("botocore.session").get_session()
