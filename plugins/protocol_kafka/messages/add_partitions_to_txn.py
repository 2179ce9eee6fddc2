"""AddPartitionsToTxn (key 24): add partitions to a producer's transaction before it writes to them.

Up to version 3 a client adds partitions to one transaction. From version 4 on (KIP-890) a broker sends
several transactions at once, and may only verify that they include the partitions.
"""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import ADD_PARTITIONS_TO_TXN
from tidelog.plugins.schema.declare import array, boolean, int16, int32, int64, string, struct
from tidelog.plugins.schema.types import INT32


@struct()
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: str = string()
    partitions: list[int] = array(INT32)


@struct()
class AddPartitionsToTxnTransaction:
    """Partitions for one transaction; with `verify_only` they are not added, only verified."""

    transactional_id: str = string(versions="4+")
    producer_id: int = int64(versions="4+")
    producer_epoch: int = int16(versions="4+")
    verify_only: bool = boolean(versions="4+", default=False)
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, versions="4+")


@struct(ADD_PARTITIONS_TO_TXN.versions)
class AddPartitionsToTxnRequest:
    """Add partitions, before anything is written to them."""

    transactions: list[AddPartitionsToTxnTransaction] = array(
        AddPartitionsToTxnTransaction, versions="4+", factory=list
    )
    v3_and_below_transactional_id: str = string(versions="0-3", default="")
    v3_and_below_producer_id: int = int64(versions="0-3", default=0)
    v3_and_below_producer_epoch: int = int16(versions="0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(
        AddPartitionsToTxnTopic, versions="0-3", factory=list
    )


@struct()
class AddPartitionsToTxnPartitionResult:
    """Result for one partition."""

    partition_index: int = int32()
    partition_error_code: int = int16()


@struct()
class AddPartitionsToTxnTopicResult:
    """Result for one topic's partitions."""

    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult)


@struct()
class AddPartitionsToTxnResult:
    """Result for one transaction's partitions."""

    transactional_id: str = string(versions="4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, versions="4+")


@struct(ADD_PARTITIONS_TO_TXN.versions)
class AddPartitionsToTxnResponse:
    """AddPartitionsToTxn response."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(versions="4+", default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(
        AddPartitionsToTxnResult, versions="4+", factory=list
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, versions="0-3", factory=list
    )
