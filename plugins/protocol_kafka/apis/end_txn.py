"""EndTxn (API 26): commit or abort a transaction."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.coordination.transactions import (
    EPOCH_PER_TRANSACTION,
    FIRST_TRANSACTION_VERSION,
    ProducerIdentity,
)
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import code_for_producer
from tidelog.plugins.protocol_kafka.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_SINCE = 2
EPOCHS_SINCE = 5


async def handle(context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """End the transaction; from version 5 on the response has the producer's next id and epoch."""
    version = context.api_version
    by = EPOCH_PER_TRANSACTION if version >= EPOCHS_SINCE else FIRST_TRANSACTION_VERSION
    try:
        following = await context.broker.coordinator.transactions.end(
            request.transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            commit=request.committed,
            version=by,
        )
    except BrokerError as error:
        context.warn(f"ending the transaction of {request.transactional_id!r} is refused for", error)
        return EndTxnResponse(error_code=code_for_producer(error, fenced=version >= FENCED_SINCE))
    return EndTxnResponse(error_code=0, producer_id=following.producer_id, producer_epoch=following.epoch)
