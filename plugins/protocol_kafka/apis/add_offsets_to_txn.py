"""AddOffsetsToTxn (API 25): add a group's offsets to a producer's transaction."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.coordination.transactions import ProducerIdentity
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import code_for_producer
from tidelog.plugins.protocol_kafka.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

FENCED_SINCE = 2


async def handle(context: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Add the offsets' partition; clients that send this do not support transaction version 2."""
    version = context.api_version
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    try:
        coordinator = context.broker.coordinator
        await coordinator.prepare_groups()
        await coordinator.transactions.add_offsets(request.transactional_id, producer, request.group_id)
    except BrokerError as error:
        context.warn(
            f"adding offsets to the transaction of {request.transactional_id!r} is refused for", error
        )
        return AddOffsetsToTxnResponse(error_code=code_for_producer(error, fenced=version >= FENCED_SINCE))
    return AddOffsetsToTxnResponse(error_code=0)
