"""Error codes for fenced producers."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError, ProducerFenced
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode


def code_for_producer(error: BrokerError, *, fenced: bool) -> ErrorCode:
    """Return the error code for a producer; `fenced`: the client's version has PRODUCER_FENCED (KIP-588)."""
    if isinstance(error, ProducerFenced) and not fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error_code(error)
