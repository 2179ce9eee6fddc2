"""InitProducerId (API 22): an id for an idempotent producer, or the next epoch of a transactional one.

Version 6 (KIP-939), which Apache Kafka 4.4 serves with `unstable.api.versions.enable`, lets a producer take
part in two-phase commits.
"""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError, InvalidRequest
from tidelog.kernel.seams.coordination.transactions import ProducerIdentity
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import code_for_producer
from tidelog.plugins.protocol_kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

FIRST_EPOCH = 0
NO_PRODUCER = -1
FENCED_SINCE = 4


async def handle(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Return a new producer id with epoch 0, or the next epoch of a transactional id."""
    version = context.api_version
    try:
        identity = await _identity(context, request)
    except BrokerError as error:
        return InitProducerIdResponse(
            error_code=code_for_producer(error, fenced=version >= FENCED_SINCE),
            producer_id=NO_PRODUCER,
            producer_epoch=NO_PRODUCER,
        )
    return InitProducerIdResponse(
        error_code=0, producer_id=identity.producer_id, producer_epoch=identity.epoch
    )


async def _identity(context: RequestContext, request: InitProducerIdRequest) -> ProducerIdentity:
    if request.transactional_id == "":
        raise InvalidRequest("an empty transactional id is not one")
    if (request.producer_id == NO_PRODUCER) != (request.producer_epoch == NO_PRODUCER):
        raise InvalidRequest("a producer id and its epoch belong together")
    if request.transactional_id is None:
        return ProducerIdentity(await context.broker.allocate_producer_id(), FIRST_EPOCH)
    current = None
    if request.producer_id != NO_PRODUCER:
        current = ProducerIdentity(request.producer_id, request.producer_epoch)
    coordinator = context.broker.coordinator
    await coordinator.prepare_transactions()
    return await coordinator.transactions.init_producer_id(
        request.transactional_id,
        request.transaction_timeout_ms,
        current,
        two_phase_commit=request.enable_2pc,
        keep_prepared=request.keep_prepared_txn,
    )
