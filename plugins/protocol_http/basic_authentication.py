"""Users and passwords in each request, by the SASL mechanism PLAIN of the listener.

A password is checked once for a connection, and again when the session of the mechanism has ended, or when a
request has other credentials: connections of proxies are shared.

Source: RFC 7617; RFC 4616 for what PLAIN gets.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

from tidelog.kernel.errors import UnsupportedSaslMechanism
from tidelog.kernel.seams.requests import ANONYMOUS, Principal
from tidelog.kernel.seams.sasl import AuthenticationFailed
from tidelog.plugins.protocol_http.messages import HttpProblem

if TYPE_CHECKING:
    from tidelog.kernel.request import ListenerAuthentication
    from tidelog.kernel.request.authentication import SaslSession
    from tidelog.kernel.seams.wire import Peer

MECHANISM: Final = "PLAIN"
UNAUTHORIZED: Final = 40101


class BasicAuthentication:
    """Who the client of one connection is, by the credentials of its last request."""

    def __init__(self, authentication: ListenerAuthentication, peer: Peer) -> None:
        self._authentication = authentication
        self._peer = peer
        self._session: SaslSession | None = None
        self._credentials = ""

    @property
    def is_proven(self) -> bool:
        """Whether any credentials were right."""
        return self._session is not None

    async def principal_of(self, credentials: str) -> Principal:
        """Return who has these credentials, as the header `Authorization` has them.

        Raises:
            HttpProblem: they prove nothing.
        """
        session = self._session
        if session is None or session.has_expired or credentials != self._credentials:
            self._session = None
            session = await self._proven(_token(credentials, self._authentication.max_token_bytes))
            self._session, self._credentials = session, credentials
        return session.principal if session.is_proven else ANONYMOUS

    async def _proven(self, token: bytes) -> SaslSession:
        session = self._authentication.session(self._peer)
        try:
            session.begin(MECHANISM)
            await session.respond(token)
        except UnsupportedSaslMechanism as error:
            raise HttpProblem(
                401, f"the listener has to enable SASL {MECHANISM} for HTTP", UNAUTHORIZED
            ) from error
        except AuthenticationFailed as error:
            raise HttpProblem(401, str(error), UNAUTHORIZED) from error
        if not session.is_proven:
            raise HttpProblem(401, "the credentials are incomplete", UNAUTHORIZED)
        return session


def _token(credentials: str, most_bytes: int) -> bytes:
    scheme, _, encoded = credentials.partition(" ")
    if scheme.lower() != "basic":
        raise HttpProblem(401, "this needs a user and a password (Authorization: Basic)", UNAUTHORIZED)
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise HttpProblem(401, "the credentials are not base64", UNAUTHORIZED) from error
    user, colon, password = decoded.partition(b":")
    # A zero byte would end the user, or the password, for PLAIN.
    if not colon or b"\0" in decoded or len(decoded) > most_bytes:
        raise HttpProblem(401, "the credentials are malformed", UNAUTHORIZED)
    return b"\0" + user + b"\0" + password
