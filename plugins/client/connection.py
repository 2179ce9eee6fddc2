"""Sans-IO client side of one Kafka connection: requests in, bytes out; bytes in, responses out, in order.

A driver moves the bytes:

    connection = ClientConnection("127.0.0.1:9092")
    while there is something to do:
        send connection.outgoing(), then call connection.bytes_sent(count)
        receive into connection.receive_buffer(), then call connection.bytes_received(count)
        take connection.next_response() until it is None

A new connection sends ApiVersions by itself, and with a `SaslLogin` it authenticates next; `ready` is true
once versions are negotiated and requests may be sent. Each is sent in the newest version that both sides
support. Any number may be in flight; the broker answers them in order.

Source: Kafka protocol guide, "Request and Response Headers"; KIP-482 for flexible versions; KIP-511 for
ApiVersions; KIP-43 and KIP-152 for SASL.
"""

from __future__ import annotations

import struct
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn

import attrs

from tidelog.plugins.client.errors import (
    AuthenticationRefused,
    BrokerClosed,
    ClientError,
    ProtocolError,
    SaslRefused,
    UnsendableRequest,
)
from tidelog.plugins.client.frames import LEAST_RESPONSE_BYTES, BadLength, ResponseFrames
from tidelog.plugins.client.requests import (
    SOFTWARE_NAME,
    AnyApi,
    BrokerVersions,
    Response,
    api_of,
    first_flexible,
    message_for,
    version_to_retry,
    versions_request,
)
from tidelog.plugins.protocol_kafka.messages.api import (
    API_VERSIONS,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.header import encode_request, parse_response_header
from tidelog.plugins.protocol_kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tidelog.plugins.protocol_kafka.messages.sasl_handshake import SaslHandshakeRequest
from tidelog.plugins.schema import DecodeError, EncodeError, Part, decode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.plugins.client.sasl import SaslLogin, SaslTokens
    from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsResponse
    from tidelog.plugins.protocol_kafka.messages.sasl_handshake import SaslHandshakeResponse

DEFAULT_MAX_RESPONSE_BYTES: Final = 128 * 1024 * 1024
"""Limit above a fetch of 50 MiB (`fetch.max.bytes`) and a batch of 100 MiB (`socket.request.max.bytes`)."""

_CLOSED: Final = "the broker closed it"
_CLOSED_UNHEARD: Final = f"{_CLOSED} without an answer: does its listener have another security_protocol?"
_MAX_PARTS: Final = 64
_MAX_CORRELATION_ID: Final = 0x7FFFFFFF
_UNSUPPORTED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big", signed=True)


@attrs.frozen
class _InFlight:
    correlation_id: int
    api: AnyApi
    version: int

    def __str__(self) -> str:
        return f"{self.api.name} v{self.version}"


@attrs.frozen
class _Outgoing:
    expected: _InFlight
    parts: list[memoryview]
    answered: bool


class ClientConnection:
    """Protocol state of one connection; after a failure, which `failure` holds, it cannot be used again.

    Attributes:
        peer: address of the broker, for messages
        session_lifetime_ms: how long after the login the broker serves the connection, 0 for ever (KIP-368)
    """

    def __init__(
        self,
        peer: str,
        *,
        client_id: str | None = SOFTWARE_NAME,
        max_response_bytes: int = DEFAULT_MAX_RESPONSE_BYTES,
        versions: BrokerVersions | None = None,
        login: SaslLogin | None = None,
    ) -> None:
        """Set the broker's address, for messages, and its `versions` if they need no negotiation."""
        self.peer = peer
        self.session_lifetime_ms = 0
        self._client_id = client_id
        self._next_id = 0
        self._outgoing: deque[memoryview] = deque()
        self._in_flight: deque[_InFlight] = deque()
        self._frames: deque[memoryview] = deque()
        self._reader = ResponseFrames(max_response_bytes)
        self._failure: ClientError | None = None
        self._versions = versions
        self._login = login
        self._tokens: SaslTokens | None = None
        self._has_raw_tokens = False
        self._has_answered = False
        if versions is None:
            self._send_versions_request(API_VERSIONS.newest_stable)
        elif login is not None:
            self._begin_login(login, versions)

    @property
    def ready(self) -> bool:
        """Return whether versions are negotiated and the login is done, so that requests may be sent."""
        return self._is_open and self._failure is None

    @property
    def _is_open(self) -> bool:
        return self._versions is not None and self._login is None

    @property
    def failure(self) -> ClientError | None:
        """Return the error that ended the connection, None while it is usable."""
        return self._failure

    @property
    def in_flight(self) -> int:
        """Return the number of requests in flight."""
        return len(self._in_flight)

    @property
    def versions(self) -> BrokerVersions:
        """Return the API versions of the broker.

        Raises:
            RuntimeError: they are not negotiated yet.
        """
        if self._versions is None:
            raise RuntimeError(f"the versions of {self.peer} are not negotiated yet")
        return self._versions

    @property
    def waiting_for(self) -> str:
        """Return API and version of the next expected response, such as "Metadata v13"; empty for none."""
        return str(self._in_flight[0]) if self._in_flight else ""

    def send(self, *requests: object, at_most: int | None = None) -> list[int | None]:
        """Queue requests (messages or `ByVersion`), all or none of them.

        Return the correlation id of each, None for a request without a response (Produce with acks 0).
        `at_most` limits the version. The connection stays usable after the first two errors.

        Raises:
            UnsupportedByBroker: the sides have no version of an API in common.
            UnsendableRequest: a value cannot be encoded in the version.
            ClientError: the connection has failed before.
            RuntimeError: versions are not negotiated yet.
        """
        if self._failure is not None:
            raise self._failure
        # All are encoded before any is queued, so that an error leaves nothing half sent.
        outgoing: list[_Outgoing] = []
        for request in requests:
            api = api_of(request)
            version = self.versions.newest(api, at_most)
            outgoing.append(self._encode(api, version, message_for(request, version)))
        return [self._queue(each) for each in outgoing]

    @property
    def has_outgoing(self) -> bool:
        """Return whether there are bytes to send."""
        return bool(self._outgoing)

    def outgoing(self) -> Sequence[memoryview]:
        """Return the bytes to send next, as buffers for one `sendmsg`; empty when there are none."""
        return list(islice(self._outgoing, _MAX_PARTS))

    def bytes_sent(self, count: int) -> None:
        """Remove the first `count` bytes of `outgoing`, which were sent."""
        queue = self._outgoing
        while queue and count >= len(queue[0]):
            count -= len(queue.popleft())
        if queue and count:
            queue[0] = queue[0][count:]

    def receive_buffer(self) -> memoryview:
        """Return a writable buffer for the next bytes of the broker, at least one byte long."""
        return self._reader.room()

    def bytes_received(self, count: int) -> None:
        """Process `count` bytes at the start of the last receive buffer; 0 means that the broker closed."""
        self._reader.bytes_received(count)
        if self._failure is not None:
            return
        if count == 0:
            self.connection_lost(_CLOSED if self._has_answered or self._login else _CLOSED_UNHEARD)
        try:
            while (frame := self._reader.next_frame()) is not None:
                self._frames.append(frame)
        except BadLength as error:
            self._fail(self._protocol_error(str(error), self._next_expected()))

    def receive_data(self, data: bytes | memoryview) -> None:
        """Process bytes received elsewhere than in the receive buffer; empty means that the broker closed."""
        rest = memoryview(data)
        if not rest:
            self.receive_buffer()
            self.bytes_received(0)
        while rest and self._failure is None:
            room = self.receive_buffer()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            self.bytes_received(count)
            rest = rest[count:]

    def connection_lost(self, reason: str) -> None:
        """Fail the connection because of an error of the driver; requests in flight get no response."""
        expected = self._next_expected()
        self._fail(BrokerClosed(self.peer, str(expected or ""), reason))

    def next_response(self) -> Response | None:
        """Return the next response, in the order of the requests; None while bytes are missing.

        Responses that arrived before a failure are returned before it is raised.

        Raises:
            ProtocolError: the broker violated the protocol.
            BrokerClosed: the connection has ended.
            ErrorResponse: the broker answers ApiVersions with an error.
            AuthenticationRefused: the login failed.
        """
        while self._frames:
            response = self._take(self._frames.popleft())
            if self._is_open:
                self._has_answered = True
                return response
            if self._versions is None:
                self._negotiate_versions(response.message, response.version)
            elif self._login is not None:
                self._continue_login(self._login, response)
        if self._failure is not None:
            raise self._failure
        return None

    def _send_versions_request(self, version: int) -> None:
        self._queue(self._encode(API_VERSIONS, version, versions_request()))

    def _encode(self, api: AnyApi, version: int, message: Any) -> _Outgoing:
        correlation_id = self._next_id
        self._next_id = (correlation_id + 1) & _MAX_CORRELATION_ID
        try:
            flexible = first_flexible(api)
            parts = encode_request(api.key, version, correlation_id, self._client_id, message, flexible)
        except EncodeError as error:
            raise UnsendableRequest(self.peer, str(error)) from error
        answered = api is not PRODUCE or message.acks != 0
        return _Outgoing(_InFlight(correlation_id, api, version), list(map(_bytes_of, parts)), answered)

    def _queue(self, request: _Outgoing) -> int | None:
        self._outgoing.extend(request.parts)
        if not request.answered:
            return None
        self._in_flight.append(request.expected)
        return request.expected.correlation_id

    def _take(self, frame: memoryview) -> Response:
        if not self._in_flight:
            self._fail_and_raise(self._protocol_error(f"a response of {len(frame)} bytes", None))
        expected = self._in_flight[0]
        if self._has_raw_tokens and expected.api is SASL_AUTHENTICATE:
            self._in_flight.popleft()
            raw = SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=bytes(frame))
            return Response(expected.correlation_id, expected.api, expected.version, raw)
        try:
            api, version = expected.api, expected.version
            correlation_id, position = parse_response_header(api.key, version, frame, first_flexible(api))
            if correlation_id != expected.correlation_id:
                reason = f"its correlation id is {correlation_id}, not {expected.correlation_id}"
                self._fail_and_raise(self._protocol_error(reason, expected))
            message = _decode(expected, frame[position:])
        except DecodeError as error:
            self._fail_and_raise(self._protocol_error(str(error), expected))
        self._in_flight.popleft()
        return Response(correlation_id, expected.api, expected.version, message)

    def _negotiate_versions(self, answer: ApiVersionsResponse, sent: int) -> None:
        try:
            again = version_to_retry(self.peer, answer, sent)
        except ClientError as error:
            self._fail_and_raise(error)
        if again is not None:
            self._send_versions_request(again)
            return
        self._versions = BrokerVersions.from_response(self.peer, answer)
        if self._login is not None:
            self._begin_login(self._login, self._versions)

    def _begin_login(self, login: SaslLogin, versions: BrokerVersions) -> None:
        try:
            version = versions.newest(SASL_HANDSHAKE)
        except ClientError as error:
            self._fail(error)
            return
        # After version 0 (Kafka before 1.0) tokens have no headers.
        self._has_raw_tokens = version == 0
        self._queue(self._encode(SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=login.mechanism)))

    def _continue_login(self, login: SaslLogin, response: Response) -> None:
        """Process a response to a handshake or a token."""
        answer = response.message
        try:
            if response.api is SASL_HANDSHAKE:
                _check_handshake(login.mechanism, answer)
                self._tokens = login.tokens()
                self._reader.least_frame_bytes = 0 if self._has_raw_tokens else LEAST_RESPONSE_BYTES
                self._send_token(next(self._tokens))
            elif answer.error_code:
                raise SaslRefused(answer.error_message or ErrorCode.of(answer.error_code).name)
            elif self._tokens is not None:
                self._send_token(self._tokens.send(bytes(answer.auth_bytes)))
        except StopIteration:
            self.session_lifetime_ms = answer.session_lifetime_ms
            self._login = self._tokens = None
            self._reader.least_frame_bytes = LEAST_RESPONSE_BYTES
        except SaslRefused as error:
            self._fail_and_raise(AuthenticationRefused(self.peer, login.mechanism, str(error)))

    def _send_token(self, token: bytes) -> None:
        if self._has_raw_tokens:
            expected = _InFlight(self._next_id, SASL_AUTHENTICATE, 0)
            self._queue(_Outgoing(expected, [memoryview(struct.pack(">i", len(token)) + token)], True))
            return
        request = SaslAuthenticateRequest(auth_bytes=token)
        version = self.versions.newest(SASL_AUTHENTICATE)
        self._queue(self._encode(SASL_AUTHENTICATE, version, request))

    def _next_expected(self) -> _InFlight | None:
        """Return the request whose response comes after those that have arrived, None when there is none."""
        arrived = len(self._frames)
        return self._in_flight[arrived] if arrived < len(self._in_flight) else None

    def _protocol_error(self, reason: str, expected: _InFlight | None) -> ProtocolError:
        if expected is None:
            return ProtocolError(self.peer, "", -1, reason)
        return ProtocolError(self.peer, expected.api.name, expected.version, reason)

    def _fail_and_raise(self, error: ClientError) -> NoReturn:
        self._frames.clear()
        self._fail(error)
        raise error

    def _fail(self, error: ClientError) -> None:
        if self._failure is None:
            self._failure = error
            self._outgoing.clear()


def _check_handshake(mechanism: str, answer: SaslHandshakeResponse) -> None:
    """Refuse a handshake that failed.

    Raises:
        SaslRefused: it did; says what to change.
    """
    code = ErrorCode.of(answer.error_code)
    if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise SaslRefused(f"the broker has only {', '.join(answer.mechanisms) or 'no mechanism'}")
    if code is ErrorCode.ILLEGAL_SASL_STATE:
        raise SaslRefused("its listener has no SASL: use the security protocol PLAINTEXT or SSL")
    if code is not ErrorCode.NONE:
        raise SaslRefused(code.name)


def _decode(expected: _InFlight, body: memoryview) -> Any:
    version = expected.version
    if expected.api is API_VERSIONS and bytes(body[:2]) == _UNSUPPORTED_VERSION:
        # A broker answers a version of ApiVersions that it does not know in version 0 (KIP-511).
        version = 0
    return decode(expected.api.response_class, version, body)


def _bytes_of(part: Part) -> memoryview:
    if not isinstance(part, bytes | memoryview):
        raise TypeError("the records of a request have to be in memory")
    return memoryview(part).cast("B")
