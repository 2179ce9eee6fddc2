"""Authentication of connections with SASL, for the plugins of wire protocols.

    ANNOUNCED by begin() → EXCHANGE by respond() … → OPEN until the session ends
                               ↘ FAILED: the connection has to be closed

Source: Apache Kafka's `SaslServerAuthenticator`; KIP-152, KIP-368.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import trio

from tidelog.kernel.config import keys
from tidelog.kernel.errors import IllegalSaslState, UnsupportedSaslMechanism
from tidelog.kernel.seams.requests import ANONYMOUS, Principal
from tidelog.kernel.seams.sasl import Authenticated, AuthenticationFailed, SaslExchange, SaslMechanism

if TYPE_CHECKING:
    from tidelog.kernel.clock import Clock
    from tidelog.kernel.config import Config
    from tidelog.kernel.seams.wire import Peer

_log = logging.getLogger(__name__)

MIN_REAUTHENTICATION_INTERVAL_S: Final = 1.0
"""A connection authenticates again no more often: as in Kafka."""


class ListenerAuthentication:
    """SASL of one listener."""

    def __init__(
        self, config: Config, listener: str, mechanisms: Mapping[str, SaslMechanism], clock: Clock
    ) -> None:
        """`mechanisms` are those that are enabled, by name; `clock` returns milliseconds since the epoch."""
        self.mechanisms = mechanisms
        self.clock = clock
        self.failure_delay_s = config[keys.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS] / 1000
        self.max_token_bytes = config[keys.SASL_SERVER_MAX_RECEIVE_SIZE]
        self.max_session_ms = {
            name: config.of_mechanism(keys.CONNECTIONS_MAX_REAUTH_MS, listener, name) for name in mechanisms
        }

    def session(self, peer: Peer) -> SaslSession:
        """Return the session of a new connection."""
        return SaslSession(self, peer)


class SessionState(Enum):
    """What a connection may do next."""

    NEW = auto()
    EXCHANGE = auto()
    OPEN = auto()
    FAILED = auto()


class SaslSession:
    """Who one connection is, and the exchange by which it proves that.

    Attributes:
        state: what comes next
        is_proven: whether the state was OPEN
        principal: who it is then
        by_token: whether it has shown a delegation token
        lifetime_ms: how long the session is open since it was authenticated last; 0 without an end, and
            within an exchange
        failure: why the state is FAILED, for the log
    """

    __slots__ = (
        "_authentication",
        "_exchange",
        "_expires_at",
        "_mechanism",
        "_peer",
        "_reauthenticated_at",
        "by_token",
        "failure",
        "is_proven",
        "lifetime_ms",
        "principal",
        "state",
    )

    def __init__(self, authentication: ListenerAuthentication, peer: Peer) -> None:
        self._authentication = authentication
        self._peer = peer
        self._exchange: SaslExchange | None = None
        self._mechanism: str = ""
        self._expires_at: float | None = None
        self._reauthenticated_at: float | None = None
        self.state = SessionState.NEW
        self.is_proven = False
        self.principal: Principal = ANONYMOUS
        self.by_token = False
        self.lifetime_ms = 0
        self.failure = ""

    @property
    def enabled(self) -> list[str]:
        """The names of the mechanisms that the client may choose."""
        return [*self._authentication.mechanisms]

    @property
    def has_expired(self) -> bool:
        """Whether the session has ended, so that the client has to authenticate again."""
        return self._expires_at is not None and trio.current_time() > self._expires_at

    def begin(self, mechanism: str) -> None:
        """Start an exchange, or one that extends the session (KIP-368).

        Raises:
            IllegalSaslState: there is one, or the session has no end, or the last one began a moment ago.
            UnsupportedSaslMechanism: it is not enabled; the state is FAILED.
        """
        if self.state is SessionState.OPEN:
            self._check_may_reauthenticate()
        elif self.state is not SessionState.NEW:
            raise IllegalSaslState("a SASL exchange is in progress")
        found = self._authentication.mechanisms.get(mechanism)
        if found is None:
            enabled = ", ".join(self.enabled)
            self._fail(f"it asks for the SASL mechanism {mechanism!r}; sasl.enabled.mechanisms has {enabled}")
            raise UnsupportedSaslMechanism(f"the SASL mechanism {mechanism!r} is not enabled: {enabled}")
        if self.is_proven and mechanism != self._mechanism:
            self._fail(f"it changes the SASL mechanism from {self._mechanism} to {mechanism}")
            raise UnsupportedSaslMechanism(f"the mechanism cannot change from {self._mechanism}")
        self._exchange = found.start(self._peer)
        self._mechanism, self.state, self.lifetime_ms = mechanism, SessionState.EXCHANGE, 0

    def _check_may_reauthenticate(self) -> None:
        now, last = trio.current_time(), self._reauthenticated_at
        too_soon = last is not None and now - last < MIN_REAUTHENTICATION_INTERVAL_S
        if self._expires_at is None or too_soon:
            raise IllegalSaslState("the connection is authenticated, and need not be again")
        self._reauthenticated_at = now

    async def respond(self, token: bytes) -> bytes:
        """Return the answer to a token; the state is OPEN or still EXCHANGE.

        Raises:
            AuthenticationFailed: after `connection.failed.authentication.delay.ms`; the state is FAILED.
        """
        try:
            return await self._respond(token)
        except AuthenticationFailed as error:
            self._fail(f"authentication with {self._mechanism} failed: {error.reason}")
            # What guesses passwords gets no faster by failing.
            await trio.sleep(self._authentication.failure_delay_s)
            raise

    async def _respond(self, token: bytes) -> bytes:
        if self._exchange is None:
            raise AssertionError("tokens come after `begin`")
        try:
            answer = self._exchange.respond(token)
            if isinstance(answer, Awaitable):
                answer = await answer
        except AuthenticationFailed:
            raise
        except Exception as error:
            # A mechanism that fails lets no one in, and what it says is not for the client.
            _log.exception("the SASL mechanism %s failed inside the broker", self._mechanism)
            raise AuthenticationFailed("the broker failed to authenticate the client") from error
        if not isinstance(answer, Authenticated):
            return answer
        self._open(answer)
        return answer.token

    def _open(self, proven: Authenticated) -> None:
        if self.is_proven and proven.principal != self.principal:
            raise AuthenticationFailed(
                f"Cannot change principals during re-authentication from {self.principal} to "
                f"{proven.principal}"
            )
        self.lifetime_ms = self._lifetime_ms(proven.expires_at_ms)
        self._expires_at = trio.current_time() + self.lifetime_ms / 1000 if self.lifetime_ms else None
        self.principal, self.by_token, self.is_proven = proven.principal, proven.by_token, True
        self._exchange, self.state = None, SessionState.OPEN

    def _lifetime_ms(self, expires_at_ms: int | None) -> int:
        longest = max(0, self._authentication.max_session_ms[self._mechanism])
        if expires_at_ms is None:
            return longest
        # One that has expired meanwhile is over at once, and not without an end.
        left = max(1, expires_at_ms - self._authentication.clock())
        return min(left, longest) if longest else left

    def _fail(self, reason: str) -> None:
        self._exchange, self.state, self.failure = None, SessionState.FAILED, reason
