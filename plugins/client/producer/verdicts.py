"""What a producer does after each error of a Produce request: one table.

Source: Apache Kafka, `Sender.completeBatch` and `TransactionManager.canRetry`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.plugins.client.errors import ClientError


class ProduceVerdict(Enum):
    """What becomes of a batch."""

    APPENDED = "the log has it"
    RETRY = "it is sent again after a pause"
    RETRY_IN_DOUBT = "as RETRY, and it may be in the log"
    SPLIT = "it is sent again in two halves, unless it has one record"
    RETRY_IN_ORDER = "it is sent again after those before it; without any, a number was lost and it fails"
    NUMBER_AGAIN = "the broker has forgotten the producer: it is sent again with a new epoch"
    FAIL = "its records fail"
    FAIL_IN_DOUBT = "as FAIL, and it may be in the log"


BY_CODE: Final[Mapping[ErrorCode, ProduceVerdict]] = {
    ErrorCode.NONE: ProduceVerdict.APPENDED,
    # An earlier attempt appended it, too long ago for the broker to know its offset.
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: ProduceVerdict.APPENDED,
    ErrorCode.MESSAGE_TOO_LARGE: ProduceVerdict.SPLIT,
    ErrorCode.RECORD_LIST_TOO_LARGE: ProduceVerdict.SPLIT,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: ProduceVerdict.RETRY_IN_ORDER,
    ErrorCode.UNKNOWN_PRODUCER_ID: ProduceVerdict.NUMBER_AGAIN,
    ErrorCode.REQUEST_TIMED_OUT: ProduceVerdict.RETRY_IN_DOUBT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ProduceVerdict.RETRY_IN_DOUBT,
    ErrorCode.NETWORK_EXCEPTION: ProduceVerdict.RETRY_IN_DOUBT,
    ErrorCode.KAFKA_STORAGE_ERROR: ProduceVerdict.RETRY_IN_DOUBT,
    ErrorCode.UNKNOWN_SERVER_ERROR: ProduceVerdict.FAIL_IN_DOUBT,
}
"""Codes that are not here are retried if the Java client retries them, else the batch fails."""


def verdict_of(error: ClientError | None) -> ProduceVerdict:
    """Return what becomes of a batch whose attempt ended with an error, None for success."""
    if error is None:
        return ProduceVerdict.APPENDED
    if isinstance(error, ErrorResponse):
        found = BY_CODE.get(error.code)
        return found or (ProduceVerdict.RETRY if error.code.retriable else ProduceVerdict.FAIL)
    if not error.retriable:
        return ProduceVerdict.FAIL_IN_DOUBT if error.reached_broker else ProduceVerdict.FAIL
    return ProduceVerdict.RETRY_IN_DOUBT if error.reached_broker else ProduceVerdict.RETRY
