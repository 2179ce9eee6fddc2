"""InitProducerId (API 22): a producer id for an idempotent producer."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError, CoordinatorNotAvailable, InvalidRequest
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

FIRST_EPOCH = 0
NO_PRODUCER = -1


async def handle(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """A new id with epoch 0; a transactional id needs a transaction coordinator."""
    try:
        _check(request)
        producer_id = await context.broker.producer_ids.allocate()
    except BrokerError as error:
        return InitProducerIdResponse(
            error_code=error_code(error), producer_id=NO_PRODUCER, producer_epoch=NO_PRODUCER
        )
    return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=FIRST_EPOCH)


def _check(request: InitProducerIdRequest) -> None:
    if request.transactional_id == "":
        raise InvalidRequest("an empty transactional id is not one")
    if (request.producer_id == NO_PRODUCER) != (request.producer_epoch == NO_PRODUCER):
        raise InvalidRequest("a producer id and its epoch belong together")
    if request.transactional_id is not None:
        raise CoordinatorNotAvailable("no plugin coordinates transactions on this broker")
