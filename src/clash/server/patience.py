"""HTTP/1.1 with clients that are slow: uvicorn itself waits for them for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from clash.server.limits import HEAD_SECONDS, SEND_SECONDS


class PatientProtocol(H11Protocol):
    """A client has bounded time for the head of a request, from its connection or the first byte on, and to receive what is sent to it. The
    time that it may be silent between two requests is uvicorn's affair. Who takes longer is cut off: an orderly end would wait until
    everything is sent."""

    _head: asyncio.TimerHandle | None = None
    _sending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # every byte that the client has not received yet pauses writing
        self._await_head()

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is h11.IDLE:
            self._await_head()
        super().data_received(data)
        self._note_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.trailing_data[0]:  # a part of the next request
            self._await_head()
        self._note_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._sending is None:
            self._sending = self.loop.call_later(SEND_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head, self._sending):
            if timer is not None:
                timer.cancel()
        self._head = self._sending = None
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _note_head(self) -> None:
        """The head is there when the other side is no longer idle."""
        if self._head is not None and self.conn.their_state is not h11.IDLE:
            self._head.cancel()
            self._head = None
