"""Fetch: one response of one partition, and a reader of a range of offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.client.cluster import NO_TOPIC_ID
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.fetched import Fetched
from tidelog.plugins.client.operations.metadata import forget_if_stale, leader_of
from tidelog.plugins.client.operations.sending import retrying, send_request
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from tidelog.kernel.records.record import Record
    from tidelog.plugins.client.steps import Session, Steps

LAST_VERSION_BY_NAME: Final = 12
"""First version of Fetch that identifies topics by id."""


@attrs.frozen
class FetchLimits:
    """Limits of a fetch; the defaults are those of Kafka's consumers.

    Attributes:
        max_bytes: of one response; its first batch is returned whole even if it is larger
        min_bytes: the broker waits for at least so many bytes
        max_wait_ms: the longest time for which the broker waits
        read_committed: read up to the last stable offset, without records of aborted transactions
    """

    max_bytes: int = 1024 * 1024
    min_bytes: int = 1
    max_wait_ms: int = 500
    read_committed: bool = False


DEFAULT_LIMITS: Final = FetchLimits()


def fetch(
    session: Session, partition: TopicPartition, offset: int, limits: FetchLimits = DEFAULT_LIMITS
) -> Steps[Fetched]:
    """Return the data of one Fetch from `offset` on; empty when none arrives in time.

    Raises:
        ErrorResponse: with OFFSET_OUT_OF_RANGE, the offset is below the log start offset or above the log
            end.
        ClientError: the leader did not answer.
    """
    return (yield from retrying(session, lambda: _attempt(session, partition, offset, limits)))


@attrs.define
class PartitionReader:
    """Reader of a partition from `position` up to `stop`, one Fetch response at a time.

    A `stop` of None becomes the end of the log in the first response; with a `stop` beyond the end the reader
    waits for records without limit.
    """

    partition: TopicPartition
    position: int
    stop: int | None = None
    limits: FetchLimits = DEFAULT_LIMITS

    @property
    def finished(self) -> bool:
        """Return whether `position` has reached `stop`."""
        return self.stop is not None and self.position >= self.stop

    def poll(self, session: Session) -> Steps[list[Record]]:
        """Return the records of the next response, none when no data arrives in time; raises as `fetch` does.

        Raises:
            CorruptRecords: the data cannot be decoded.
        """
        fetched = yield from fetch(session, self.partition, self.position, self.limits)
        if self.stop is None:
            committed = self.limits.read_committed and fetched.last_stable_offset >= 0
            self.stop = fetched.last_stable_offset if committed else fetched.high_watermark
        records = [record for record in fetched.records() if record.offset < self.stop]
        self.position = fetched.next_offset()
        return records


def _attempt(session: Session, partition: TopicPartition, offset: int, limits: FetchLimits) -> Steps[Fetched]:
    leader = yield from leader_of(session, partition)
    by_name = session.cluster.topic_id(partition.topic) == NO_TOPIC_ID
    try:
        answer: FetchResponse = yield from send_request(
            session,
            _request(session, partition, offset, limits),
            node=leader,
            at_most=LAST_VERSION_BY_NAME if by_name else None,
            max_delay_s=limits.max_wait_ms / 1000,
        )
        return _fetched(partition, offset, answer)
    except ClientError as error:
        forget_if_stale(session, partition.topic, error)
        raise


def _request(session: Session, partition: TopicPartition, offset: int, limits: FetchLimits) -> FetchRequest:
    wanted = FetchPartition(
        partition=partition.partition, fetch_offset=offset, partition_max_bytes=limits.max_bytes
    )
    topic = FetchTopic(
        topic=partition.topic, topic_id=session.cluster.topic_id(partition.topic).bytes, partitions=[wanted]
    )
    return FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=int(limits.read_committed),
        topics=[topic],
    )


def _fetched(partition: TopicPartition, offset: int, answer: FetchResponse) -> Fetched:
    if answer.error_code:
        raise ErrorResponse(ErrorCode.of(answer.error_code), str(partition))
    response = _response_of(partition, answer)
    if response.error_code:
        raise ErrorResponse(ErrorCode.of(response.error_code), str(partition), f"offset {offset}")
    return Fetched(
        partition,
        offset,
        response.high_watermark,
        response.last_stable_offset,
        response.log_start_offset,
        response.records if isinstance(response.records, memoryview) else memoryview(b""),
        [(aborted.producer_id, aborted.first_offset) for aborted in response.aborted_transactions or ()],
    )


def _response_of(partition: TopicPartition, answer: FetchResponse) -> PartitionData:
    for topic in answer.responses:
        for part in topic.partitions:
            if part.partition_index == partition.partition:
                return part
    raise ErrorResponse.missing(str(partition))
