"""DescribeTransactions (key 65): the state of transactional ids (KIP-664)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_TRANSACTIONS
from tidelog.plugins.schema.declare import array, int16, int32, int64, string, struct
from tidelog.plugins.schema.types import INT32, STRING


@struct(DESCRIBE_TRANSACTIONS.versions)
class DescribeTransactionsRequest:
    """Request these transactional ids."""

    transactional_ids: list[str] = array(STRING)


@struct()
class TopicData:
    """Partitions of one topic that are in the transaction."""

    topic: str = string()
    partitions: list[int] = array(INT32)


@struct()
class DescribeTransactionsTransaction:
    """One transactional id's transaction; the start is -1 before its first."""

    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string(default="")
    transaction_timeout_ms: int = int32(default=0)
    transaction_start_time_ms: int = int64(default=0)
    producer_id: int = int64(default=0)
    producer_epoch: int = int16(default=0)
    topics: list[TopicData] = array(TopicData, factory=list)


@struct(DESCRIBE_TRANSACTIONS.versions)
class DescribeTransactionsResponse:
    """DescribeTransactions response."""

    throttle_time_ms: int = int32(default=0)
    transaction_states: list[DescribeTransactionsTransaction] = array(DescribeTransactionsTransaction)
