"""ListOffsets: offsets by timestamp, and the ends of partitions' logs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.errors import ErrorResponse, UnsupportedByBroker
from tidelog.plugins.client.operations.metadata import LedPartitions, at_leaders
from tidelog.plugins.client.operations.sending import Outcomes, or_raise, retry_each, send_request
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tidelog.plugins.client.steps import Session, Steps

NO_REPLICA = -1


@attrs.frozen
class FoundOffset:
    """Offset, its record's timestamp in milliseconds and leader epoch; each -1 when it is unknown."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


@attrs.frozen
class _Query:
    timestamp: int | Mapping[TopicPartition, int]
    isolation_level: int

    def timestamp_of(self, partition: TopicPartition) -> int:
        return self.timestamp if isinstance(self.timestamp, int) else self.timestamp[partition]


def list_offsets(
    session: Session,
    partitions: Iterable[TopicPartition],
    timestamp: int | Mapping[TopicPartition, int] = LATEST_TIMESTAMP,
    *,
    read_committed: bool = False,
) -> Steps[Outcomes[TopicPartition, FoundOffset]]:
    """Return for each partition the first offset at or after a timestamp, or that of a special timestamp.

    Timestamps are in milliseconds since the epoch, one for all partitions or one for each; special ones are
    in `tidelog.plugins.protocol_kafka.messages.list_offsets`. The offset is -1 if no record is that new. With
    `read_committed` the latest offset is the last stable offset.

    Raises:
        ClientError: no broker answered.
    """
    query = _Query(timestamp, int(read_committed))
    return (
        yield from retry_each(
            session,
            partitions,
            lambda pending: at_leaders(session, pending, lambda led: _send(session, led, query)),
            lambda error: error.retriable,
        )
    )


def offsets_before(
    session: Session, partition: TopicPartition, timestamp: int, most: int = 1
) -> Steps[list[int]]:
    """Return offsets before a time, at most so many, in descending order.

    A broker that has ListOffsets 0 (Apache Kafka before 4.0) returns first offsets of segments that were
    written before that time, and with `LATEST_TIMESTAMP` the end of the log before them. Of another one the
    offsets are that of the first record that is not older, or the end of the log, and the log start offset.

    Raises:
        ErrorResponse: the partition cannot be read.
        ClientError: no broker answered.
    """
    outcomes = yield from retry_each(
        session,
        [partition],
        lambda pending: at_leaders(
            session, pending, lambda led: _send_oldest(session, led, _Query(timestamp, 0), most)
        ),
        lambda error: error.retriable,
    )
    if not isinstance(outcomes[partition], UnsupportedByBroker):
        return or_raise(outcomes)[partition]

    def one(special: int) -> Steps[int]:
        return or_raise((yield from list_offsets(session, [partition], special)))[partition].offset

    end = yield from one(timestamp)
    if end < 0:
        end = yield from one(LATEST_TIMESTAMP)
    start = (yield from one(EARLIEST_TIMESTAMP)) if most > 1 else end
    return [end, start] if start < end else [end]


def _send_oldest(
    session: Session, led: LedPartitions, query: _Query, most: int
) -> Steps[Outcomes[TopicPartition, list[int]]]:
    request = _request(led.partitions, query, most)
    answer: ListOffsetsResponse = yield from send_request(session, request, node=led.leader, at_most=0)
    results = _results(answer)
    outcomes: Outcomes[TopicPartition, list[int]] = {}
    for partition in led.partitions:
        found = results.get(partition)
        if found is None or found.error_code:
            code = ErrorCode.of(found.error_code) if found else ErrorCode.UNKNOWN_SERVER_ERROR
            outcomes[partition] = ErrorResponse(code, str(partition))
        else:
            outcomes[partition] = list(found.old_style_offsets)
    return outcomes


def _send(
    session: Session, led: LedPartitions, query: _Query
) -> Steps[Outcomes[TopicPartition, FoundOffset]]:
    request = _request(led.partitions, query)
    answer: ListOffsetsResponse = yield from send_request(session, request, node=led.leader)
    results = _results(answer)
    return {partition: _outcome(partition, results.get(partition)) for partition in led.partitions}


def _results(answer: ListOffsetsResponse) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
    return {
        TopicPartition(topic.name, part.partition_index): part
        for topic in answer.topics
        for part in topic.partitions
    }


def _request(partitions: Sequence[TopicPartition], query: _Query, most: int = 1) -> ListOffsetsRequest:
    by_topic: defaultdict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for partition in partitions:
        requested = ListOffsetsPartition(
            partition_index=partition.partition,
            timestamp=query.timestamp_of(partition),
            max_num_offsets=most,
        )
        by_topic[partition.topic].append(requested)
    return ListOffsetsRequest(
        replica_id=NO_REPLICA,
        isolation_level=query.isolation_level,
        topics=[ListOffsetsTopic(name=name, partitions=requested) for name, requested in by_topic.items()],
    )


def _outcome(
    partition: TopicPartition, response: ListOffsetsPartitionResponse | None
) -> FoundOffset | ErrorResponse:
    if response is None:
        return ErrorResponse.missing(str(partition))
    if response.error_code:
        return ErrorResponse(ErrorCode.of(response.error_code), str(partition))
    if response.old_style_offsets:  # version 0 has a list of offsets and no timestamp
        return FoundOffset(response.old_style_offsets[0])
    return FoundOffset(response.offset, response.timestamp, response.leader_epoch)
