"""What a handler knows besides the request itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import attrs

if TYPE_CHECKING:
    from tidelog.kernel.errors import BrokerError
    from tidelog.kernel.seams.wire import Peer, WireContext


MAX_MESSAGE_BYTES = 64 * 1024
"""Error messages in one answer: beyond them only codes, as a request may name thousands of things."""
MAX_MESSAGE_CHARACTERS = 1000
"""What a peer sent may be part of a message, and a string of the protocol holds 32,767 bytes."""


class ServedVersions(NamedTuple):
    """The versions of one API that are served."""

    key: int
    min_version: int
    max_version: int


@attrs.define
class RequestContext:
    """The broker, the peer, and of the request under way its client id and its version of the API.

    `fetch_max_bytes` and `max_idle_ms` are what fetches go by of `fetch.max.bytes` and
    `connections.max.idle.ms`, looked up once for each connection.

    One object serves a connection: requests are handled one at a time, so a handler that waits reads what it
    needs of `client_id` and `api_version` and finds it unchanged afterwards. `served` is what ApiVersions
    announces.
    """

    broker: WireContext
    peer: Peer
    fetch_max_bytes: int
    max_idle_ms: int
    served: Sequence[ServedVersions] = ()
    client_id: str | None = None
    api_version: int = 0
    message_bytes_left: int = MAX_MESSAGE_BYTES

    def error_message(self, error: BrokerError) -> str | None:
        """Return the message about `error` for the client, None once an answer has very many."""
        if self.message_bytes_left <= 0:
            return None
        text = str(error)
        if len(text) > MAX_MESSAGE_CHARACTERS:
            text = text[: MAX_MESSAGE_CHARACTERS - 1] + "…"
        self.message_bytes_left -= len(text)
        return text

    def warn(self, what: str, error: BrokerError) -> None:
        """Log what the peer is refused and why; the same refusal is not repeated for a while."""
        self.broker.peer_warnings.warn(self.peer, what, error, alike=type(error).__name__)
