"""The seam of SASL mechanisms: how a client proves who it is, before its first request.

A mechanism only checks tokens. Frames, error codes, limits, the delay of failures and sessions that end are
the matter of the kernel and the wire protocol. Source: RFC 4422; KIP-12, KIP-152 and KIP-368.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import attrs
import trio

from tidelog.kernel.clock import Clock
from tidelog.kernel.seams.requests import Principal

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.metadata import MetadataImage
    from tidelog.kernel.seams.wire import Peer


class AuthenticationFailed(Exception):
    """The client has not proven who it is: it gets the message, and its connection is closed.

    The message must not depend on which users there are. `reason` is for the log of the broker.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class Authenticated(NamedTuple):
    """The end of an exchange that succeeded: who the client is, and the last token for it.

    The session ends at `expires_at_ms` (milliseconds since the epoch) if what the client has shown does.
    `by_token`: by a delegation token, with which it may not request further ones.
    """

    principal: Principal
    token: bytes = b""
    expires_at_ms: int | None = None
    by_token: bool = False


class SaslExchange(Protocol):
    """One authentication of one connection."""

    def respond(self, token: bytes) -> bytes | Authenticated | Awaitable[bytes | Authenticated]:
        """Return the answer to a token of the client; what takes longer than a millisecond is awaitable.

        Raises:
            AuthenticationFailed: the token is malformed, or proves nothing. Any other exception is a failure
                too, which is logged as one of the broker.
        """
        ...


class SaslMechanism(Protocol):
    """A mechanism on one listener."""

    def start(self, peer: Peer) -> SaslExchange:
        """Begin an authentication."""
        ...

    async def run(self) -> None:
        """Do what has to be done beside connections until cancelled, or return at once."""
        await trio.lowlevel.checkpoint()

    def check(self, config: Config) -> None:
        """Check a configuration that is to be used from now on, by `SaslContext.config`.

        Raises:
            ConfigError: it cannot be; the message says why.
        """
        return


@attrs.frozen
class SaslContext:
    """What a mechanism may use of its broker: `config` changes in place, `image` returns the present one."""

    config: Config
    listener: str
    image: Callable[[], MetadataImage]
    clock: Clock


class SaslMechanismBackend(Protocol):
    """A kind of mechanism, as a plugin offers it."""

    @property
    def name(self) -> str:
        """The name that clients and `sasl.enabled.mechanisms` choose it by, such as `PLAIN`."""
        ...

    def create(self, context: SaslContext) -> SaslMechanism:
        """Return the mechanism for one listener; blocks for some milliseconds.

        Raises:
            ConfigError: the configuration has not what it needs; the message says why.
        """
        ...
