"""Sans-IO server side of one Kafka connection: frames in, broker calls, responses out, in order.

Frames are parsed in the receive buffer, where the socket wrote them, without a copy. A frame is an int32
length and that many bytes.

Source: Kafka protocol guide, "Network" and "Request and Response Headers"; KIP-482 for flexible versions;
KIP-511 for ApiVersions.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar, cast

import trio

from tidelog.kernel.config import keys as kernel_keys
from tidelog.kernel.importing import import_in_thread
from tidelog.kernel.pace import ITEMS_PER_STEP, run_in_steps
from tidelog.kernel.seams.requests import Throttled
from tidelog.kernel.seams.wire import Parts, Peer, ProtocolViolation
from tidelog.plugins.protocol_kafka import keys
from tidelog.plugins.protocol_kafka.client_telemetry import ClientTelemetry
from tidelog.plugins.protocol_kafka.context import MAX_MESSAGE_BYTES, RequestContext
from tidelog.plugins.protocol_kafka.fetch_session_cache import FetchSessionCache
from tidelog.plugins.protocol_kafka.messages.header import RequestHeader, parse_request_header
from tidelog.plugins.protocol_kafka.routes import Route, Routes
from tidelog.plugins.protocol_kafka.wait_timer import WaitTimer
from tidelog.plugins.schema import DecodeError, TooManyElements, large_decoder, large_encoder
from tidelog.plugins.schema.compiled import is_compiled
from tidelog.plugins.schema.types import total_size

if TYPE_CHECKING:
    from tidelog.kernel.seams.wire import ReceiveMemory, WireContext

_log = logging.getLogger(__name__)

T = TypeVar("T")

INITIAL_BYTES = 4 * 1024
"""Initial size: enough for the first requests of a connection, and small for thousands of idle clients."""
GROWN_BYTES = 128 * 1024
"""Size up to which a buffer grows that is filled: several pipelined requests in one read."""
GROWTH = 4
"""Factor between the size of the buffer and the bytes that have arrived."""
MAX_RETAINED_BYTES = 4 * 1024 * 1024
"""A buffer larger than this is released as soon as it is empty."""
LENGTH_BYTES = 4
MAX_LOGGED_CHARACTERS = 100
"""As much of a client id as a log line shows."""
TLS_RECORD_TYPES = range(20, 24)
TLS_MAJOR_VERSION = 3

_LENGTH = struct.Struct(">i")

_FRAME_HEAD = struct.Struct(">ii")
CORRELATION_ID_BYTES = 4


class ReceiveBuffer:
    """Received bytes, from the first one that is not consumed yet.

    The buffer starts small, grows to the largest frame that the peer sends, and shrinks again when the
    connection idles. It grows as the bytes arrive: a length alone costs nothing. What it has beyond the first
    size is taken from `memory`, the share of the connection, which has to have what the frame needs in all;
    without a share the buffer grows as it needs to.
    """

    __slots__ = ("_end", "_memory", "_start", "_view", "limited_by", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int, memory: ReceiveMemory | None = None) -> None:
        self.max_frame_bytes, self.limited_by = max_frame_bytes, keys.SOCKET_REQUEST_MAX_BYTES.name
        self._memory = memory
        self._view = memoryview(bytearray(INITIAL_BYTES))
        self._start = 0
        self._end = 0

    def room(self) -> memoryview:
        """Return a writable buffer behind the received bytes, empty if memory for it was refused."""
        size = len(self._view)
        # A small buffer that was filled gets larger: there may be more where that came from.
        grows = self._end == size < GROWN_BYTES
        if self._start == self._end:
            self._start = self._end = 0
            if size > MAX_RETAINED_BYTES:
                self._replace(GROWN_BYTES)
            elif grows:
                self._replace(min(GROWTH * size, GROWN_BYTES))
            return self._view
        needed = self._frame_bytes_or(LENGTH_BYTES)
        if grows:
            # Without memory for more, the frame may still fit what there is.
            if not self._replace(min(GROWTH * size, max(needed, GROWN_BYTES))):
                self._compact()
        # It is full, or the frame would fit if it began at the front.
        elif self._end == size or self._start + needed > size >= needed:
            self._make_room(needed)
        return self._view[self._end :]

    def bytes_received(self, count: int) -> None:
        """Note that the first `count` bytes of the last `room` were received."""
        self._end += count

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame without its length, None while bytes are missing.

        The view stays valid until `room` is called again.

        Raises:
            ProtocolViolation: the length is negative or beyond `socket.request.max.bytes`.
        """
        start = self._start
        available = self._end - start
        if available < LENGTH_BYTES:
            return None
        (length,) = _LENGTH.unpack_from(self._view, start)
        if not 0 <= length <= self.max_frame_bytes:
            guess = _other_protocol(bytes(self._view[start : start + LENGTH_BYTES]))
            raise ProtocolViolation(
                f"a request of {length} bytes is announced, {self.limited_by}={self.max_frame_bytes}{guess}"
            )
        if available < LENGTH_BYTES + length:
            return None
        self._start = start + LENGTH_BYTES + length
        return self._view[start + LENGTH_BYTES : self._start]

    def release_memory(self) -> None:
        """Replace a large buffer by a small one if it is empty."""
        if self._start == self._end and len(self._view) > INITIAL_BYTES:
            self._replace(INITIAL_BYTES)

    def _frame_bytes_or(self, unknown: int) -> int:
        """Return the size of the frame that has begun, with its length; `unknown` while that is missing."""
        if self._end - self._start < LENGTH_BYTES:
            return unknown
        return LENGTH_BYTES + int(_LENGTH.unpack_from(self._view, self._start)[0])

    def _make_room(self, needed: int) -> None:
        pending = self._end - self._start
        fits = needed <= len(self._view) and pending <= len(self._view) // 2
        if fits or not self._replace(max(2 * pending, min(max(needed, GROWN_BYTES), GROWTH * pending))):
            self._compact()

    def _compact(self) -> None:
        pending = self._end - self._start
        if self._start:
            # It may overlap: a memoryview copies as if it were read first.
            self._view[:pending] = self._view[self._start : self._end]
            self._start, self._end = 0, pending

    def _replace(self, size: int) -> bool:
        """Move to a new buffer; frames that are still in use keep the old one.

        Return False, with the old one, if the memory was refused.
        """
        if self._memory is not None:
            # The whole frame at once: if each of many had a part, none could be completed.
            wanted = max(size, self._frame_bytes_or(0)) if size > INITIAL_BYTES else 0
            if not self._memory.resize(wanted):
                return False
        pending = self._view[self._start : self._end]
        self._view = memoryview(bytearray(size))
        self._view[: len(pending)] = pending
        self._start, self._end = 0, len(pending)
        return True


def _other_protocol(head: bytes) -> str:
    """Describe the protocol of a peer that came to this port by mistake, if its first bytes show it."""
    if head[0] in TLS_RECORD_TYPES and head[1] == TLS_MAJOR_VERSION:
        return (
            "; it looks like TLS, and this listener speaks without: set security.protocol=PLAINTEXT or "
            "SASL_PLAINTEXT in the client, or the port of another listener"
        )
    if head.strip().isalpha() and head.isupper():
        return "; it looks like HTTP, and this listener speaks Kafka's protocol"
    return ""


class KafkaConnection:
    """Protocol state of one client."""

    __slots__ = (
        "_buffer",
        "_context",
        "_found_routes",
        "_muted_until",
        "_route",
        "_routes",
        "bytes_received",
        "receive_buffer",
        "release_memory",
    )

    def __init__(
        self,
        broker: WireContext,
        peer: Peer,
        routes: Routes,
        telemetry: ClientTelemetry | None = None,
        memory: ReceiveMemory | None = None,
        fetch_sessions: FetchSessionCache | None = None,
    ) -> None:
        """`telemetry`, `memory` and `fetch_sessions` are shared by connections, unless they are None."""
        config = broker.config
        self._routes = routes
        # Empty while the connection is muted, so that the path of a request has not to ask for that.
        self._found_routes: Mapping[tuple[int, int], Route] = routes
        self._muted_until = 0.0
        self._context = RequestContext(
            broker,
            peer,
            config[keys.FETCH_MAX_BYTES],
            config[kernel_keys.CONNECTIONS_MAX_IDLE_MS],
            fetch_session_cache(broker) if fetch_sessions is None else fetch_sessions,
            routes.served,
            telemetry or ClientTelemetry(),
            peer.principal,
        )
        self._buffer = buffer = ReceiveBuffer(config[keys.SOCKET_REQUEST_MAX_BYTES], memory)
        # The buffer's own methods, which saves a call at each receive.
        self.receive_buffer = buffer.room
        self.bytes_received = buffer.bytes_received
        self.release_memory = buffer.release_memory
        self._route: Route | None = None

    @property
    def records_received(self) -> int:
        """How many records the last request brought."""
        return self._context.records_received

    @property
    def current_request(self) -> str:
        """The API, its version and the client id of the last request."""
        route = self._route
        client = repr(self._context.client_id)[:MAX_LOGGED_CHARACTERS]
        return f"{route.api.name} (version {route.version}, client id {client})" if route else ""

    def close(self) -> None:
        """Forget the client instance that pushed metrics over this connection."""
        instance_id = self._context.client_instance_id
        if instance_id is not None:
            self._context.telemetry.forget(instance_id)

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        """Serve the next whole request; see `tidelog.kernel.seams.wire`."""
        frame = self._buffer.next_frame()
        if frame is None:
            return None
        try:
            header = parse_request_header(frame, self._routes.first_flexible)
        except DecodeError as error:
            raise ProtocolViolation(f"a request header cannot be read: {error}") from error
        asked = header.api_key, header.api_version
        route = self._found_routes.get(asked)
        if route is None:
            return self._serve_unfound(asked, header, frame)
        return self._serve(route, header, frame)

    def _serve_unfound(
        self, asked: tuple[int, int], header: RequestHeader, frame: memoryview
    ) -> Parts | Awaitable[Parts]:
        if self._muted_until or not self._routes.is_ready(asked):
            return self._serve_once_ready(asked, header, frame)
        return self._serve(self._routes[asked], header, frame)

    def _mute(self, seconds: float) -> None:
        """Have the next request wait: the response to this one has the throttle time (KIP-219)."""
        self._found_routes, self._muted_until = {}, trio.current_time() + seconds

    async def _serve_once_ready(
        self, asked: tuple[int, int], header: RequestHeader, frame: memoryview
    ) -> Parts:
        """Serve the first request of a version of an API, or one of a connection that is muted."""
        if self._muted_until:
            await trio.sleep_until(self._muted_until)
            self._found_routes, self._muted_until = self._routes, 0.0
        if not self._routes.is_ready(asked):
            with trio.CancelScope(shield=True):
                await import_in_thread(partial(self._routes.prepare, asked, self._context.broker))
        parts = self._serve(self._routes[asked], header, frame)
        return parts if isinstance(parts, list) else await parts or []

    def _serve(self, route: Route, header: RequestHeader, frame: memoryview) -> Parts | Awaitable[Parts]:
        self._route, context = route, self._context
        route.meter.requests += 1
        context.client_id = header.client_id
        context.api_version = header.api_version
        context.request_bytes = len(frame)
        context.message_bytes_left = MAX_MESSAGE_BYTES
        context.records_received = 0
        try:
            # As in Kafka, bytes behind the request are ignored.
            request, _ = route.decode(frame, header.body_position)
        except TooManyElements:
            return self._serve_in_steps(route, header, frame)
        except DecodeError as error:
            raise _malformed(route, error) from error
        response = route.handle(context, request)
        if type(response) is route.response_class:
            return _encode(route, header.correlation_id, response)
        if response is None:
            return []
        return self._respond_when_done(
            route, header.correlation_id, cast("Awaitable[object | None]", response)
        )

    async def _serve_in_steps(self, route: Route, header: RequestHeader, frame: memoryview) -> Parts:
        """Serve a request with many elements in steps, so that other connections are served in between."""
        decode = await _compiled(large_decoder, route.request_class, route.version)
        try:
            request, _ = await run_in_steps(decode(frame, header.body_position))
        except DecodeError as error:
            raise _malformed(route, error) from error
        # A turn of its own: the last step of the decoder may have been a long one.
        await trio.lowlevel.checkpoint()
        response = route.handle(self._context, request)
        if response is None:
            return []
        if type(response) is not route.response_class:
            awaitable = cast("Awaitable[object | None]", response)
            return await self._respond_when_done(route, header.correlation_id, awaitable)
        return await _encode_in_steps(route, header.correlation_id, response)

    async def _respond_when_done(
        self, route: Route, correlation_id: int, response: Awaitable[object | None]
    ) -> Parts:
        if route.api.abandonable:
            done = await response
        else:
            done = None
            # What a request changes must not depend on whether its client is still connected.
            with trio.CancelScope(shield=True):
                done = await response
        if type(done) is Throttled:
            self._mute(done.seconds)
            done = done.response
        if done is None:
            return []
        parts = _encode(route, correlation_id, done)
        return parts if isinstance(parts, list) else await parts


def _malformed(route: Route, error: DecodeError) -> ProtocolViolation:
    return ProtocolViolation(f"a {route.api.name} request (version {route.version}) is malformed: {error}")


def _encode(route: Route, correlation_id: int, response: object) -> Parts | Awaitable[Parts]:
    parts: Parts = []
    try:
        route.encode(response, parts)
    except TooManyElements:
        return _encode_in_steps(route, correlation_id, response)
    return _framed(route, correlation_id, parts)


async def _encode_in_steps(route: Route, correlation_id: int, response: object) -> Parts:
    parts: Parts = []
    encode = await _compiled(large_encoder, route.response_class, route.version)
    # A turn of its own: the last step of the handler may have been a long one.
    await trio.lowlevel.checkpoint()
    await run_in_steps(encode(response, parts))
    if not route.api.keeps_responses:
        await run_in_steps(dropped_in_steps(response))
    return _framed(route, correlation_id, parts)


async def _compiled(
    find: Callable[[type[Any], int], Callable[..., T]], message: type[object], version: int
) -> Callable[..., T]:
    """Return the codec of a large message, compiled in a thread at its first use."""
    if is_compiled(message, version):
        return find(message, version)
    return await import_in_thread(partial(find, message, version))


def dropped_in_steps(response: object) -> Generator[None, None, None]:
    """Drop the elements of a large response: all at once takes as long as several steps of the encoder."""
    for elements in _arrays(response):
        while elements:
            for inner in _arrays(elements[-1]):
                while len(inner) > ITEMS_PER_STEP:
                    del inner[-ITEMS_PER_STEP:]
                    yield
            elements.pop()
            yield


def _arrays(message: object) -> Iterable[list[Any]]:
    fields: Iterable[Any] = (getattr(message, name, None) for name in getattr(message, "__slots__", ()))
    return (field for field in fields if _is_array(field))


def _is_array(field: object) -> TypeGuard[list[Any]]:
    return type(field) is list


def _framed(route: Route, correlation_id: int, parts: Parts) -> Parts:
    tags = route.header_tags
    body = parts[0]
    if len(parts) == 1 and type(body) is bytes:
        return [_FRAME_HEAD.pack(CORRELATION_ID_BYTES + len(tags) + len(body), correlation_id) + tags + body]
    size = CORRELATION_ID_BYTES + len(tags) + total_size(parts)
    parts.insert(0, _FRAME_HEAD.pack(size, correlation_id) + tags)
    return parts


def fetch_session_cache(broker: WireContext) -> FetchSessionCache:
    """Return an empty cache for the fetch sessions of a broker."""
    slots = broker.config[keys.MAX_INCREMENTAL_FETCH_SESSIONS]
    return FetchSessionCache(slots, monotonic, WaitTimer(broker.tasks.once))
