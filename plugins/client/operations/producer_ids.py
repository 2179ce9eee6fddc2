"""InitProducerId: the id of an idempotent producer, and the versions of Produce that producers use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.sending import retrying, send_request
from tidelog.plugins.client.producers import IdempotentProducer
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

if TYPE_CHECKING:
    from tidelog.plugins.client.steps import Session, Steps

LAST_VERSION_BY_NAME: Final = 12
"""Last version of Produce that identifies topics by name."""
LAST_VERSION_BEFORE_TRANSACTION_V2: Final = 11
"""With later versions a client leaves it to the broker to add partitions to the transaction (KIP-890)."""
NO_TRANSACTION_TIMEOUT_MS: Final = 0x7FFFFFFF
"""Ignored without a transactional id; Kafka's own producer sends this value."""


def init_producer(session: Session) -> Steps[IdempotentProducer]:
    """Return a new producer id for `produce`, so that a batch that is sent again is not appended again.

    Raises:
        ClientError: no broker returned one.
    """

    def attempt() -> Steps[IdempotentProducer]:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_TIMEOUT_MS
        )
        answer: InitProducerIdResponse = yield from send_request(session, request)
        if answer.error_code:
            raise ErrorResponse(ErrorCode.of(answer.error_code), "producer id")
        return IdempotentProducer(answer.producer_id, answer.producer_epoch)

    return (yield from retrying(session, attempt))
