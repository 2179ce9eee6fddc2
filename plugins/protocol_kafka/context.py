"""What a handler knows besides the request itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tidelog.kernel.broker import Broker
    from tidelog.kernel.errors import BrokerError
    from tidelog.kernel.wire import Peer


@attrs.define
class RequestContext:
    """The broker, the peer, and of the request under way its client id and its version of the API.

    One object serves a connection: requests are handled one at a time, so a handler that waits reads what it
    needs of `client_id` and `api_version` and finds it unchanged afterwards.
    """

    broker: Broker
    peer: Peer
    client_id: str | None = None
    api_version: int = 0

    def warn(self, what: str, error: BrokerError) -> None:
        """Log what the peer is refused and why; the same refusal is not repeated for a while."""
        self.broker.peer_warnings.warn(self.peer, what, error, alike=type(error).__name__)
