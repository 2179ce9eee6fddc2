"""Sans-IO server side of one HTTP connection: requests in, responses and streams out, in order.

h11 parses and frames. What is bounded: the head of a request (`MAX_HEAD_BYTES`), its body
(`http.request.max.bytes`, of which all beyond a few KiB is taken from the broker's memory for requests), and
how long both may take (`http.request.timeout.ms`).

Source: RFC 9110, RFC 9112.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_plus, unquote_to_bytes, urlsplit

import attrs
import h11
import trio

from tidelog.kernel.seams.requests import Throttled
from tidelog.kernel.seams.wire import ConnectionFinished, Parts, UntilPeerSends
from tidelog.plugins.protocol_http.basic_authentication import BasicAuthentication
from tidelog.plugins.protocol_http.call import Call
from tidelog.plugins.protocol_http.messages import (
    HttpProblem,
    HttpRequest,
    HttpResponse,
    WebSocketAccepted,
)
from tidelog.plugins.protocol_http.problems import response_of
from tidelog.plugins.protocol_http.routes import Waits
from tidelog.plugins.protocol_http.websocket import WebSocket, accept_headers

if TYPE_CHECKING:
    from tidelog.kernel.seams.wire import Peer, ReceiveMemory
    from tidelog.plugins.protocol_http.messages import EventSource
    from tidelog.plugins.protocol_http.service import HttpService

MAX_HEAD_BYTES: Final = 32 * 1024
"""Of the request line and the headers, and of those of a chunk; some clients send large cookies."""
MAX_HEADERS: Final = 100
VERSIONS: Final = (b"1.1", b"1.0")
MAX_PARAMETERS: Final = 100
BUFFER_BYTES: Final = 8 * 1024
LARGE_BUFFER_BYTES: Final = 64 * 1024
"""While a body arrives that is larger than the small buffer."""
FREE_BODY_BYTES: Final = 64 * 1024
"""As much of a body needs no memory of the broker's limit."""
NO_MEMORY: Final = memoryview(bytearray())
_REASONS: Final[Mapping[int, bytes]] = {status.value: status.phrase.encode() for status in HTTPStatus}


class HttpConnection:
    """Protocol state of one client."""

    def __init__(self, service: HttpService, peer: Peer, memory: ReceiveMemory) -> None:
        """`memory` is the share of the connection."""
        self._service = service
        self._peer = peer
        self._memory = memory
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._body_bytes = 0
        self._held_bytes = 0
        self._call: Call | None = None
        self._began_at: float | None = None
        self._muted_until = 0.0
        self._events: EventSource | None = None
        self._websocket: WebSocket | None = None
        self._listening = False
        self._finished = False
        authentication = service.broker.authentication_of(peer.listener_name)
        self._authentication = None if authentication is None else BasicAuthentication(authentication, peer)
        self.records_received = 0

    @property
    def awaits_authentication(self) -> bool:
        """Whether the listener authenticates clients, and this one has not proven yet who it is."""
        return self._authentication is not None and not self._authentication.is_proven

    @property
    def current_request(self) -> str:
        """Method and path of the last request, as its route has them."""
        call = self._call
        return "" if call is None else f"{call.route.method} {call.route.template}"

    def receive_buffer(self) -> memoryview:
        """Return the buffer, which is never kept: h11 has a copy of what is in it."""
        # All of a body whose size is known: if each of many had a part, none could be completed.
        most = self._body_bytes or self._service.max_request_bytes
        needed = min(len(self._body) + len(self._buffer), most)
        if needed > FREE_BODY_BYTES and needed > self._held_bytes:
            wanted = self._body_bytes or min(2 * needed, most)
            if not self._memory.resize(wanted):
                return NO_MEMORY
            self._held_bytes = wanted
        return self._buffer

    def bytes_received(self, count: int) -> None:
        """Take bytes from the buffer."""
        received = bytes(self._buffer[:count])
        if self._websocket is not None:
            self._websocket.receive(received)
        elif self._events is not None:
            # A response without an end comes first, so nothing that follows can be answered.
            self._finished = True
        elif not self._finished:
            self._http.receive_data(received)

    def release_memory(self) -> None:
        """Use a small buffer again."""
        if len(self._buffer) > BUFFER_BYTES and not self._body:
            self._buffer = memoryview(bytearray(BUFFER_BYTES))

    def close(self) -> None:
        """Do nothing: what it has goes with it."""

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        """Serve the next request, or continue a stream; see `tidelog.kernel.seams.wire`."""
        if self._listening:
            # The wait was ended by bytes of the peer.
            self._listening = False
            return None
        if self._finished:
            raise ConnectionFinished
        if self._websocket is not None:
            return self._next_of_websocket(self._websocket)
        if self._events is not None:
            self._listening = True
            return UntilPeerSends(partial(self._next_event, self._events))
        try:
            return self._next_of_request()
        except h11.RemoteProtocolError as error:
            return self._refuse(HttpProblem(error.error_status_hint, str(error)))
        except HttpProblem as problem:
            return self._refuse(problem)

    def _next_of_request(self) -> Parts | Awaitable[Parts] | None:
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                return self._need_data()
            if isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > self._service.max_request_bytes:
                    raise self._too_large()
            elif isinstance(event, h11.Request):
                self._begin(event)
            elif isinstance(event, h11.EndOfMessage):
                return self._whole_request()
            else:
                # PAUSED, since the last request was given up, or the end.
                return None

    def _need_data(self) -> Parts | None:
        """Wait for the rest of a request, but not forever.

        Raises:
            HttpProblem: it takes too long.
        """
        if self._head is None and not self._http.trailing_data[0]:
            return None
        now = self._service.loop_clock()
        if self._began_at is None:
            self._began_at = now
        elif now - self._began_at > self._service.request_timeout_s:
            raise HttpProblem(408, "the request took longer than http.request.timeout.ms to arrive")
        if self._head is not None and self._http.they_are_waiting_for_100_continue:
            go_ahead = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            return [self._http.send(go_ahead) or b""]
        return None

    def _begin(self, head: h11.Request) -> None:
        """Take the head of a request.

        Raises:
            HttpProblem: it is refused before its body has arrived.
        """
        self._head = head
        if head.http_version not in VERSIONS:
            raise HttpProblem(505, "this listener speaks HTTP/1.1")
        names = [name for name, _ in head.headers]
        if len(names) > MAX_HEADERS:
            raise HttpProblem(431, f"a request has at most {MAX_HEADERS} headers")
        # A proxy in front may take the other one of both for the end of the request (RFC 9112, 6.1).
        if b"transfer-encoding" in names and b"content-length" in names:
            raise HttpProblem(400, "a request has either Content-Length or Transfer-Encoding")
        length = next((value for name, value in head.headers if name == b"content-length"), b"0")
        self._body_bytes = int(length)
        if self._body_bytes > self._service.max_request_bytes:
            raise self._too_large()
        if self._body_bytes > BUFFER_BYTES or b"transfer-encoding" in names:
            self._buffer = memoryview(bytearray(LARGE_BUFFER_BYTES))

    def _too_large(self) -> HttpProblem:
        return HttpProblem(
            413, f"the body has more than http.request.max.bytes={self._service.max_request_bytes}"
        )

    def _whole_request(self) -> Parts | Awaitable[Parts]:
        head, body = self._head, self._body
        assert head is not None  # noqa: S101 - h11 has no end without a beginning
        self._head, self._body, self._body_bytes, self._began_at = None, bytearray(), 0, None
        self.records_received = 0
        try:
            request = _request(head, bytes(body))
            check_origin(request.headers)
            self._call = call = self._service.call(request, self._peer)
        except HttpProblem as problem:
            # The request is whole, so the next one can follow.
            return self._respond(response_of(problem))
        return self._serve(call)

    async def _serve(self, call: Call) -> Parts:
        if self._muted_until:
            await trio.sleep_until(self._muted_until)
            self._muted_until = 0.0
        if self._authentication is not None and call.route.operation is not None:
            credentials = call.request.headers.get("authorization", "")
            try:
                principal = await self._authentication.principal_of(credentials)
            except HttpProblem as problem:
                # A client that guesses has to connect again.
                self._finished = True
                challenge = ("WWW-Authenticate", 'Basic realm="Kafka", charset="UTF-8"')
                return self._respond(attrs.evolve(response_of(problem), headers=(challenge,)))
            call.peer = call.peer._replace(principal=principal)
        if call.route.waits is Waits.GIVEN_UP:
            response = await self._service.serve(call)
        else:
            response = None
            # What a request changes must not depend on whether its client is still connected.
            with trio.CancelScope(shield=True):
                response = await self._service.serve(call)
        self.records_received = call.records_received
        if type(response) is Throttled:
            self._muted_until = trio.current_time() + response.seconds
            answer = response.response
        else:
            answer = response
        if isinstance(answer, WebSocketAccepted):
            return self._become_websocket(call, answer)
        if isinstance(answer, HttpResponse):
            return self._respond(answer)
        raise TypeError(f"a handler returned {answer!r}")

    def _respond(self, response: HttpResponse) -> Parts:
        """Return the bytes of a response; with events, of its head."""
        http, has_body = self._http, response.status != HTTPStatus.NO_CONTENT
        headers: list[tuple[str, str]] = [*response.headers]
        if has_body:
            headers.append(("Content-Type", response.content_type))
        if response.events is not None:
            headers.append(("Cache-Control", "no-store"))
        elif has_body:
            headers.append(("Content-Length", str(len(response.body))))
        if self._finished:
            headers.append(("Connection", "close"))
        reason = _REASONS.get(response.status, b"")
        out = [http.send(h11.Response(status_code=response.status, headers=headers, reason=reason)) or b""]
        if response.events is not None:
            self._events = response.events
            return [b"".join(out)]
        if has_body and response.body:
            out.append(http.send(h11.Data(data=response.body)) or b"")
        out.append(http.send(h11.EndOfMessage()) or b"")
        self._end_of_response()
        return [b"".join(out)]

    def _end_of_response(self) -> None:
        if self._held_bytes:
            self._memory.resize(0)
            self._held_bytes = 0
        http = self._http
        if http.our_state is h11.DONE and http.their_state is h11.DONE:
            http.start_next_cycle()
        else:
            self._finished = True

    def _refuse(self, problem: HttpProblem) -> Parts:
        """Return the last response of the connection: where the next request begins is not known."""
        self._finished = True
        self._body = bytearray()
        self._service.broker.peer_warnings.warn(
            self._peer, "refusing an HTTP request of", problem, alike="http"
        )
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            return self._respond(response_of(problem))
        return []

    async def _next_event(self, events: EventSource) -> Parts:
        piece = await events.next_piece()
        self._listening = False
        if piece is not None:
            return [self._http.send(h11.Data(data=piece)) or b""]
        self._events = None
        last = self._http.send(h11.EndOfMessage()) or b""
        self._end_of_response()
        return [last]

    def _become_websocket(self, call: Call, accepted: WebSocketAccepted) -> Parts:
        try:
            headers = accept_headers(call.request.headers)
        except HttpProblem as problem:
            return self._respond(response_of(problem))
        switch = h11.InformationalResponse(status_code=101, headers=headers, reason=b"Switching Protocols")
        head = self._http.send(switch) or b""
        self._websocket = WebSocket(accepted.events, self._http.trailing_data[0])
        return [head]

    def _next_of_websocket(self, websocket: WebSocket) -> Parts | Awaitable[Parts]:
        replies = websocket.replies()
        if replies:
            return [replies]
        if websocket.is_closed:
            raise ConnectionFinished
        self._listening = True
        return UntilPeerSends(partial(self._next_message, websocket))

    async def _next_message(self, websocket: WebSocket) -> Parts:
        messages = await websocket.next_messages()
        self._listening = False
        return [messages]


def _request(head: h11.Request, body: bytes) -> HttpRequest:
    """Return a request in its parts.

    Raises:
        HttpProblem: its target is malformed.
    """
    try:
        target = urlsplit(head.target.decode("ascii"))
        path = [unquote_to_bytes(part).decode() for part in target.path.strip("/").split("/")]
        query = _query(target.query)
    except ValueError as error:
        raise HttpProblem(400, f"the target of the request is malformed: {error}") from error
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
    return HttpRequest(head.method.decode("ascii"), path, query, headers, body)


def _query(text: str) -> Mapping[str, str]:
    if not text:
        return {}
    parts = text.split("&")
    if len(parts) > MAX_PARAMETERS:
        raise HttpProblem(400, f"a request has at most {MAX_PARAMETERS} parameters")
    found: dict[str, str] = {}
    for part in parts:
        name, _, value = part.partition("=")
        name = unquote_plus(name, errors="strict")
        if name in found:
            raise HttpProblem(400, f"the parameter {name[:100]!r} is there twice")
        found[name] = unquote_plus(value, errors="strict")
    return found


def check_origin(headers: Mapping[str, str]) -> None:
    """Refuse what a page of another site has a browser send: nothing else shows that its user wants that.

    Raises:
        HttpProblem: the request comes from another site.
    """
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
        raise HttpProblem(403, f"pages of {origin[:200]} may not send requests here")
