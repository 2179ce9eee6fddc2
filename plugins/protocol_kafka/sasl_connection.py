"""A connection of a listener with SASL: serves nothing but the exchange until its client is authenticated.

After SaslHandshake version 0, tokens are frames without a header, as are the answers to them. Source:
Kafka's `SaslServerAuthenticator`; KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from tidelog.kernel.config import keys as kernel_keys
from tidelog.kernel.request import SessionState
from tidelog.kernel.seams.sasl import AuthenticationFailed
from tidelog.kernel.seams.wire import Parts, ProtocolViolation
from tidelog.plugins.protocol_kafka import keys
from tidelog.plugins.protocol_kafka.connection import KafkaConnection
from tidelog.plugins.protocol_kafka.messages.api import API_VERSIONS, APIS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from tidelog.plugins.protocol_kafka.messages.header import parse_request_header
from tidelog.plugins.schema import DecodeError

if TYPE_CHECKING:
    from tidelog.kernel.request import SaslSession

_LIMIT: Final = kernel_keys.SASL_SERVER_MAX_RECEIVE_SIZE.name
_LENGTH: Final = struct.Struct(">i")
_ADMITTED: Final = {
    SessionState.NEW: (API_VERSIONS.key, SASL_HANDSHAKE.key),
    SessionState.EXCHANGE: (SASL_AUTHENTICATE.key,),
    SessionState.OPEN: (SASL_HANDSHAKE.key,),
}
"""What a client may send that is not authenticated, or whose session has ended."""


class SaslConnection(KafkaConnection):
    """Protocol state of a client that has to authenticate."""

    __slots__ = ("_session",)

    _session: SaslSession

    def authenticate_by(self, session: SaslSession, max_bytes: int) -> None:
        """Serve only what `session` admits, in frames of at most `max_bytes` until it is open."""
        self._session = self._context.sasl = session
        self._buffer.max_frame_bytes, self._buffer.limited_by = max_bytes, _LIMIT

    @property
    def awaits_authentication(self) -> bool:
        """Whether the client has never proven who it is."""
        return not self._session.is_proven

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        """Serve the next whole request, if it is admitted."""
        session = self._session
        if session.state is SessionState.OPEN:
            if self._context.principal is not session.principal:
                self._let_in(session)
            if not session.has_expired:
                return super().next_step()
        elif session.state is SessionState.FAILED:
            raise ProtocolViolation(session.failure)
        frame = self._buffer.next_frame()
        if frame is None:
            return None
        if session.state is SessionState.EXCHANGE and not self._context.sasl_has_headers:
            return self._respond(session, bytes(frame))
        try:
            header = parse_request_header(frame, self._routes.first_flexible)
        except DecodeError as error:
            raise ProtocolViolation(f"a request header cannot be read: {error}") from error
        if header.api_key not in _ADMITTED[session.state]:
            api = APIS.get(header.api_key)
            asked = f"a {api.name} request" if api else f"a request of API key {header.api_key}"
            if session.state is SessionState.OPEN:
                raise ProtocolViolation(
                    f"its session has ended, and {asked} came (connections.max.reauth.ms)"
                )
            raise ProtocolViolation(
                f"{asked} came before the client was authenticated with SASL; set security.protocol and "
                "sasl.mechanism in the client"
            )
        return self._serve_unfound((header.api_key, header.api_version), header, frame)

    def _let_in(self, session: SaslSession) -> None:
        context = self._context
        context.principal, context.known_access = session.principal, None
        most = keys.SOCKET_REQUEST_MAX_BYTES
        self._buffer.max_frame_bytes, self._buffer.limited_by = context.broker.config[most], most.name

    async def _respond(self, session: SaslSession, token: bytes) -> Parts:
        """Return the answer to a token without a header; a failure closes the connection without one."""
        try:
            answer = await session.respond(token)
        except AuthenticationFailed:
            return []
        return [_LENGTH.pack(len(answer)) + answer]
