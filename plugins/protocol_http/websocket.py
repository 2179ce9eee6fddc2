"""The server side of a WebSocket that sends records: sans-IO, with wsproto for the frames.

Source: RFC 6455.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import CloseConnection, Message, Ping, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from tidelog.plugins.protocol_http.messages import HttpProblem

if TYPE_CHECKING:
    from tidelog.plugins.protocol_http.messages import EventSource

ACCEPT_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
KEY_BYTES: Final = 16
MAX_RECEIVED_BYTES: Final = 64 * 1024
"""What a peer may send in all between two turns of records: pings, and its close. Nothing else is for it to
send."""


def accept_headers(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the headers of the response that opens a WebSocket.

    Raises:
        HttpProblem: the request opens none.
    """
    connection = {part.strip().lower() for part in headers.get("connection", "").split(",")}
    key = headers.get("sec-websocket-key", "")
    if headers.get("sec-websocket-version") != "13":
        raise HttpProblem(426, "a WebSocket needs version 13")
    try:
        is_key = len(base64.b64decode(key, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        is_key = False
    if "upgrade" not in connection or not is_key:
        raise HttpProblem(400, "a WebSocket needs Connection: Upgrade and Sec-WebSocket-Key")
    digest = hashlib.sha1(key.encode() + ACCEPT_GUID, usedforsecurity=False).digest()
    return [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", base64.b64encode(digest).decode()),
    ]


class WebSocket:
    """An open WebSocket: what is followed goes out, and what the peer sends is only looked at for its end."""

    def __init__(self, events: EventSource, trailing: bytes) -> None:
        """`trailing` are bytes behind the request."""
        self._events = events
        self._frames = Connection(ConnectionType.SERVER)
        self._replies = bytearray()
        self._received = 0
        if trailing:
            self.receive(trailing)

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is sent."""
        return self._frames.state is not ConnectionState.OPEN

    def receive(self, data: bytes) -> None:
        """Take bytes of the peer, and prepare the replies to pings and to its close."""
        if self.is_closed:
            return
        self._received += len(data)
        if self._received > MAX_RECEIVED_BYTES:
            self._close(CloseReason.MESSAGE_TOO_BIG, "too much at once")
            return
        try:
            self._frames.receive_data(data)
            for event in self._frames.events():
                if isinstance(event, CloseConnection | Ping):
                    self._replies += self._frames.send(event.response())
                elif isinstance(event, Message):
                    self._close(CloseReason.POLICY_VIOLATION, "this WebSocket only sends")
                    return
        except RemoteProtocolError as error:
            reason = error.event_hint
            code = reason.code if isinstance(reason, CloseConnection) else CloseReason.PROTOCOL_ERROR
            self._close(code, str(error)[:100])

    def replies(self) -> bytes:
        """Return what is to be sent to the peer at once."""
        replies, self._replies = bytes(self._replies), bytearray()
        return replies

    async def next_messages(self) -> bytes:
        """Return the frames of the next messages; a ping as a sign of life; the close at the end."""
        piece = await self._events.next_piece()
        self._received = 0
        if piece is None:
            self._close(CloseReason.GOING_AWAY, "there is nothing more")
            return self.replies()
        if not piece:
            return self._frames.send(Ping())
        return b"".join(self._frames.send(TextMessage(data=line)) for line in piece.decode().split("\n"))

    def _close(self, code: int, reason: str) -> None:
        try:
            self._replies += self._frames.send(CloseConnection(code=code, reason=reason))
        except LocalProtocolError:
            # The peer has closed already.
            return
