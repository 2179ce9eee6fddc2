"""Who a client is, by the user and the secret that it sends."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from tidelog.kernel.seams.requests import Principal
from tidelog.kernel.seams.sasl import Authenticated, AuthenticationFailed, SaslExchange, SaslMechanism
from tidelog.kernel.seams.wire import Peer

NO_SECRET = b"\0 no token has this"


class SkeletonMechanism(SaslMechanism, SaslExchange):
    """The mechanism of one listener, and each exchange with a client, which is of one token."""

    def __init__(self, secrets: Mapping[str, bytes]) -> None:
        self._secrets = secrets

    def start(self, peer: Peer) -> SaslExchange:
        """Begin an authentication."""
        return self

    def respond(self, token: bytes) -> Authenticated:
        """Return who the client is; an unknown user is refused as a wrong secret is."""
        user, _, secret = token.partition(b":")
        name = user.decode(errors="replace")
        if not hmac.compare_digest(self._secrets.get(name, NO_SECRET), secret):
            raise AuthenticationFailed("user or secret is wrong")
        return Authenticated(Principal("User", name))
