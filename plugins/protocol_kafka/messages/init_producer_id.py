"""InitProducerId (key 22): a producer id and epoch, for idempotent and transactional producers."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import INIT_PRODUCER_ID
from tidelog.plugins.schema.declare import boolean, int16, int32, int64, string, struct


@struct(INIT_PRODUCER_ID.versions)
class InitProducerIdRequest:
    """Request a new id, or (KIP-360) the next epoch of the producer's id; -1 when it has none."""

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(versions="3+", default=-1)
    producer_epoch: int = int16(versions="3+", default=-1)
    enable_2pc: bool = boolean(versions="6+", default=False)
    keep_prepared_txn: bool = boolean(versions="6+", default=False)


@struct(INIT_PRODUCER_ID.versions)
class InitProducerIdResponse:
    """The id and its epoch; the ongoing transaction's are -1 without one (KIP-939)."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64(versions="6+", default=-1)
    ongoing_txn_producer_epoch: int = int16(versions="6+", default=-1)
