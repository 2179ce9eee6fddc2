"""Rate-limited warnings about peers: each names the peer and the reason."""

from __future__ import annotations

import logging

from tidelog.kernel.logs import RateLimit
from tidelog.kernel.seams.wire import Peer

_log = logging.getLogger(__name__)

INTERVAL_SECONDS = 10.0
"""The same warning about the same host is logged no more often."""
MAX_CHARACTERS = 1000
"""Limit of each part of a warning: the peer may have chosen it, such as a name of 32 kB."""


class PeerWarnings:
    """The warnings of one broker."""

    def __init__(self) -> None:
        self._limit = RateLimit(INTERVAL_SECONDS)

    def warn(self, peer: Peer, what: str, reason: object, *, alike: str | None = None) -> None:
        """Log `what` happened to the peer and why, unless the same was logged a moment ago."""
        what, text = what[:MAX_CHARACTERS], str(reason)[:MAX_CHARACTERS]
        suppressed = self._limit.admit(f"{peer.host} {what} {alike or text}")
        if suppressed is None:
            return
        again = f" (and {suppressed} times more before)" if suppressed else ""
        _log.warning("%s %s: %s%s", what, peer, text, again, extra={"peer": str(peer)})
