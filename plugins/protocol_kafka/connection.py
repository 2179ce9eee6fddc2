"""The sans-IO server side of one Kafka connection: frames in, broker calls, answers out, in order.

Source: seed 003, "requests" and "responses"; KIP-482 for flexible versions; KIP-511 for ApiVersions.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Awaitable
from typing import TYPE_CHECKING, cast

import trio

from tidelog.kernel.config import keys
from tidelog.kernel.storage import FileRegion, Region
from tidelog.kernel.wire import Parts, Peer, ProtocolViolation
from tidelog.plugins.protocol_kafka.codecs import DecodeError
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.header import parse_request_header
from tidelog.plugins.protocol_kafka.receive_buffer import ReceiveBuffer
from tidelog.plugins.protocol_kafka.routes import ROUTES, Route

if TYPE_CHECKING:
    from tidelog.kernel.broker import Broker

_log = logging.getLogger(__name__)

_FRAME_HEAD = struct.Struct(">ii")
CORRELATION_ID_BYTES = 4


class KafkaConnection:
    """Protocol state of one client."""

    def __init__(self, broker: Broker, peer: Peer) -> None:
        self._context = RequestContext(broker, peer)
        self._buffer = ReceiveBuffer(broker.config[keys.SOCKET_REQUEST_MAX_BYTES])

    def receive_buffer(self) -> memoryview:
        """Writable room for the next bytes of the peer."""
        return self._buffer.room()

    def bytes_received(self, count: int) -> None:
        """`count` bytes were written to the start of the last receive buffer."""
        self._buffer.received(count)

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        """Serve the next whole request; see `tidelog.kernel.wire`."""
        frame = self._buffer.next_frame()
        return None if frame is None else self._serve(frame)

    def release_memory(self) -> None:
        """Let go of a large receive buffer while the client idles."""
        self._buffer.release_memory()

    def close(self) -> None:
        """The connection has ended; nothing outlives this object."""

    def _serve(self, frame: memoryview) -> Parts | Awaitable[Parts]:
        try:
            header = parse_request_header(frame)
        except DecodeError as error:
            raise ProtocolViolation(f"a request header cannot be read: {error}") from error
        route = ROUTES[header.api_key, header.api_version]
        try:
            # As in Kafka, nobody minds bytes behind the request.
            request, _ = route.decode(frame, header.body_position)
        except DecodeError as error:
            raise ProtocolViolation(
                f"a {route.name} request (version {route.version}) is malformed: {error}"
            ) from error
        context = self._context
        context.client_id = header.client_id
        context.api_version = header.api_version
        response = route.handle(context, request)
        if type(response) is route.response_class:
            return _encode(route, header.correlation_id, response)
        if response is None:
            return []
        return _encode_when_done(route, header.correlation_id, cast("Awaitable[object | None]", response))


async def _encode_when_done(route: Route, correlation_id: int, response: Awaitable[object | None]) -> Parts:
    # What a request changes must not depend on whether its client is still there to hear of it.
    with trio.CancelScope(shield=not route.abandonable):
        done = await response
    return [] if done is None else _encode(route, correlation_id, done)


def _encode(route: Route, correlation_id: int, response: object) -> Parts:
    parts: Parts = []
    route.encode(response, parts)
    tags = route.header_tags
    body = parts[0]
    if len(parts) == 1 and type(body) is bytes:
        return [_FRAME_HEAD.pack(CORRELATION_ID_BYTES + len(tags) + len(body), correlation_id) + tags + body]
    size = CORRELATION_ID_BYTES + len(tags) + sum(map(_size, parts))
    parts.insert(0, _FRAME_HEAD.pack(size, correlation_id) + tags)
    return parts


def _size(part: Region) -> int:
    return part.size if type(part) is FileRegion else len(part)  # type: ignore[arg-type]
