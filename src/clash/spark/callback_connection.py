"""The connection over which Spark calls the batch function.

Py4J opens one for every Java thread that calls Python, and closes none of them. Each Spark query has a thread of its own, so each one that
is started again would leave a thread and a descriptor in this process and a descriptor in the JVM.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaObject


class CallbackConnection:
    """That of one Spark query. Only where Py4J ties connections to threads, as it does unless PYSPARK_PIN_THREAD is off: otherwise threads
    share connections, and Py4J closes those that are idle."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway
        self._port: int | None = None  # of the JVM's end

    def remember(self) -> None:
        """In the thread that Spark calls."""
        if self._port is None and isinstance(self._gateway, ClientServer):
            with suppress(Exception):  # these are internals of Py4J
                self._port = self._gateway._gateway_client.get_thread_connection().socket.getpeername()[1]

    def close(self) -> None:
        """When the query has ended: nothing is called over it any more. Py4J's thread in this process ends with it."""
        if self._port is not None:
            with suppress(Exception):  # these are internals of Py4J, and the JVM may have gone
                _close_idle_connection(self._gateway, self._port)
            self._port = None


def _close_idle_connection(gateway: Any, port: int) -> None:
    """A connection that is in use is not in the list, and stays."""
    client = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()
    connections, lock = _field(client, "connections"), _field(client, "lock")
    lock.lock()
    try:
        for connection in list(connections.toArray()):
            if connection.getSocket().getLocalPort() == port:
                connections.remove(connection)
                connection.shutdown()
    finally:
        lock.unlock()


def _field(client: Any, name: str) -> Any:
    field = client.getClass().getSuperclass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(client)
