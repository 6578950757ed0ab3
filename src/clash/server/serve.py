"""`serve(run)`: the server of a run, in a thread beside it. It ends with `stop`, or with the process."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import threading
from typing import Any

import uvicorn

from clash.errors import OptionError
from clash.server.access import Access, is_loopback, new_token
from clash.server.app import create_app
from clash.server.connection import Connection, local_folder, remove_connection, write_connection
from clash.server.context import JobContext
from clash.server.events import EventHub
from clash.server.limits import KEEP_ALIVE_SECONDS, MAX_CONNECTIONS
from clash.server.patience import PatientProtocol
from clash.server.threads import Threads

_LOG = logging.getLogger("clash")
HOST, PORT = "127.0.0.1", 4242
_TRIED_PORTS = 20  # from the default one on


class Server:
    """`url` is the address of the page, with the token; `stop` ends the server and leaves the run alone."""

    def __init__(self, run: Any, listening: socket.socket, access: Access, job: JobContext) -> None:
        self.access = access
        self._threads = Threads()
        self._listening = listening
        self._connection = Connection(self.address, access.token, os.getpid(), job.name)
        folder = local_folder(job.checkpoint) if job.checkpoint is not None else None
        self._file = None if folder is None else write_connection(folder, self._connection)
        app = create_app(run, access, self._threads, job)
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", ws="none", loop="asyncio", http=PatientProtocol, server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=1, limit_concurrency=MAX_CONNECTIONS, proxy_headers=False,
        )  # fmt: skip
        self._server = _EndingServer(config, app.hub)
        self._thread = threading.Thread(target=self._serve, name="clash-server", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Without the token."""
        host = f"[{self.access.host}]" if ":" in self.access.host else self.access.host
        return f"http://{host}:{self.access.port}"

    @property
    def url(self) -> str:
        return f"{self.address}/?token={self.access.token}"

    def _serve(self) -> None:
        try:
            asyncio.run(self._server.serve([self._listening]))
        except Exception:
            _LOG.exception("the server of the page has failed; the run goes on")

    def stop(self) -> None:
        """Ends the server. The run is found no more."""
        if self._file is not None:
            remove_connection(self._file, self._connection)
        self._server.should_exit = True
        self._thread.join(5)
        self._listening.close()
        self._threads.close()


class _EndingServer(uvicorn.Server):
    """It ends the streams of events before it waits for open requests: they would not end by themselves, and be cancelled with a trace."""

    def __init__(self, config: uvicorn.Config, hub: EventHub) -> None:
        super().__init__(config)
        self._hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._hub.close()
        await super().shutdown(sockets)


def serve(
    run: Any,
    address: str | None = None,
    token: str | None = None,
    names: tuple[str, ...] = (),
    job: JobContext | None = None,
    any_sink: bool = False,
) -> Server:
    """Serves the page, the control API and the metrics of a run. `address`: HOST:PORT; the default is the first free port from 4242 on,
    on this machine alone. Any other address than loopback needs a `token`, which others must have been given by a safe way. `names`:
    further names of the host under which clients reach the server. `job`: what the job file says, for a run that has one. `any_sink`: a
    request may name any sink, which reaches whatever this process does."""
    host, port = (HOST, None) if address is None else check_address(address, token)
    if token is not None and len(token) < 16:
        raise OptionError("the token is too short", f"{len(token)} characters", "use at least 16, such as of `openssl rand -hex 24`")
    listening = _listen(host, port)
    access = Access(token or new_token(), host, listening.getsockname()[1], tuple(name.lower() for name in names))
    try:
        return Server(run, listening, access, job or JobContext.of(run, any_sink))
    except BaseException:
        listening.close()
        raise


def check_address(address: str, token: str | None) -> tuple[str, int]:
    """Host and port; OptionError if others reach the address and there is no token of the user's."""
    host, port = parse_address(address)
    if token is None and not is_loopback(host):
        raise OptionError(
            "an address that other machines reach needs a token of yours",
            f"{host} is not loopback",
            "give the file of a token, --token-file FILE; or use 127.0.0.1 and a tunnel, such as ssh -L",
        )
    return host, port


def parse_address(text: str) -> tuple[str, int]:
    """
    >>> parse_address("127.0.0.1:8080"), parse_address("[::1]:0"), parse_address(":9000"), parse_address("8080")
    (('127.0.0.1', 8080), ('::1', 0), ('127.0.0.1', 9000), ('127.0.0.1', 8080))
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or HOST
    if not port.isascii() or not port.isdecimal() or int(port) > 65535 or "/" in host or "@" in host:
        raise OptionError("not an address to listen on", repr(text), "write HOST:PORT, such as 127.0.0.1:4242")
    return host, int(port)


def _listen(host: str, port: int | None) -> socket.socket:
    """A listening socket; without a port, on the first that is free from the default one on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in [port] if port is not None else [*range(PORT, PORT + _TRIED_PORTS), 0]:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            listening.listen(128)
            listening.set_inheritable(False)
            return listening
        except OSError as error:
            listening.close()
            if error.errno != errno.EADDRINUSE or port is not None:
                hint = "choose another with --ui HOST:PORT, or none with --no-ui"
                raise OptionError("the server cannot listen there", f"{host}:{candidate}: {error.strerror or error}", hint) from None
    raise AssertionError("port 0 is never in use")
