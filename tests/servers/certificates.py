"""Keys and certificates of a test's own, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class Certificates(NamedTuple):
    """PEM files. The authority has signed the others; the one of the server is for 127.0.0.1."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path


def make_certificates(folder: Path) -> Certificates:
    made = Certificates(*(folder / f"{name}.pem" for name in ("authority", "server", "server-key", "client", "client-key")))
    authority_key = folder / "authority-key.pem"
    _request(made.authority, authority_key, "/CN=clash tests")
    for name, certificate, key in (("127.0.0.1", made.server, made.server_key), ("client", made.client, made.client_key)):
        signed_by = ("-CA", str(made.authority), "-CAkey", str(authority_key))
        _request(
            certificate, key, f"/CN={name}", *signed_by, "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE"
        )
    return made


def _request(certificate: Path, key: Path, subject: str, *more: str) -> None:
    command = ["openssl", "req", "-x509", *_CURVE, "-subj", subject, "-keyout", str(key), "-out", str(certificate), *more]
    subprocess.run(command, check=True, capture_output=True)
