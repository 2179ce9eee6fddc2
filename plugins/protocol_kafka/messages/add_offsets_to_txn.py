"""AddOffsetsToTxn (key 25): add the offsets of a group to a producer's transaction.

Clients of transaction version 2 do not send it: TxnOffsetCommit adds them (KIP-890).
"""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import ADD_OFFSETS_TO_TXN
from tidelog.plugins.schema.declare import int16, int32, int64, string, struct


@struct(ADD_OFFSETS_TO_TXN.versions)
class AddOffsetsToTxnRequest:
    """Add the partition of `__consumer_offsets` that has the group's offsets."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@struct(ADD_OFFSETS_TO_TXN.versions)
class AddOffsetsToTxnResponse:
    """AddOffsetsToTxn response."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
