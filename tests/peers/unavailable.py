"""The one answer of every helper here that cannot hand over what was asked for."""

from __future__ import annotations


class PeerUnavailableError(Exception):
    """A peer cannot be used on this machine; `str()` of it is the reason, fit for `pytest.skip`."""

    def __init__(self, peer: str, reason: str) -> None:
        super().__init__(f"{peer} is not available because {reason}")
        self.peer = peer
        self.reason = reason
