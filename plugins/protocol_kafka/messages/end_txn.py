"""EndTxn (key 26): commit or abort a transaction.

From version 5 on (KIP-890) the response has the producer id and epoch of the next transaction.
"""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import END_TXN
from tidelog.plugins.schema.declare import boolean, int16, int32, int64, string, struct


@struct(END_TXN.versions)
class EndTxnRequest:
    """End the transaction; `committed` false aborts it."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@struct(END_TXN.versions)
class EndTxnResponse:
    """EndTxn response, once the decision is in the log."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id: int = int64(versions="5+", default=-1, ignorable=True)
    producer_epoch: int = int16(versions="5+", default=-1, ignorable=True)
