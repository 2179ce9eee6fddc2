"""The isolation level of a request."""

from __future__ import annotations

from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.wire import ProtocolViolation

# Calling the enumeration would take two Python functions for each request.
_LEVELS = {int(isolation): isolation for isolation in Isolation}


def isolation_of(level: int) -> Isolation:
    """Return the isolation level of a request.

    Raises:
        ProtocolViolation: there is no such level.
    """
    try:
        return _LEVELS[level]
    except KeyError:
        raise ProtocolViolation(f"isolation level {level} is neither 0 nor 1") from None
