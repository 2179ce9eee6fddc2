"""What a producer is told that another instance has shut out."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError, ProducerFenced
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode


def code_for_producer(error: BrokerError, *, fenced: bool) -> ErrorCode:
    """The code of an error; without `fenced` the client's version has no PRODUCER_FENCED yet."""
    if isinstance(error, ProducerFenced) and not fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error_code(error)
