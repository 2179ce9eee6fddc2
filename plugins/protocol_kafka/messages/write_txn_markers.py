"""WriteTxnMarkers (key 27): end transactions in partitions, for coordinators and for administrators."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import WRITE_TXN_MARKERS
from tidelog.plugins.schema.declare import (
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
)
from tidelog.plugins.schema.types import INT32


@struct()
class WritableTxnMarkerTopic:
    """Partitions of one topic."""

    name: str = string()
    partition_indexes: list[int] = array(INT32)


@struct()
class WritableTxnMarker:
    """The result of one producer's transaction and its partitions; `transaction_result` true is a commit."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8(versions="2+", default=0, ignorable=True)


@struct(WRITE_TXN_MARKERS.versions)
class WriteTxnMarkersRequest:
    """Write these markers."""

    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


@struct()
class WritableTxnMarkerPartitionResult:
    """Result for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


@struct()
class WritableTxnMarkerTopicResult:
    """Result for one topic's partitions."""

    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


@struct()
class WritableTxnMarkerResult:
    """Result for one producer's markers."""

    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


@struct(WRITE_TXN_MARKERS.versions)
class WriteTxnMarkersResponse:
    """WriteTxnMarkers response."""

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
