"""The isolation level of a request."""

from __future__ import annotations

from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.wire import ProtocolViolation


def isolation_of(level: int) -> Isolation:
    """The isolation that a client asks for.

    Raises:
        ProtocolViolation: there is no such level.
    """
    try:
        return Isolation(level)
    except ValueError:
        raise ProtocolViolation(f"isolation level {level} is neither 0 nor 1") from None
