"""Fetching: one answer of one partition, and a reader that goes through a range of offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.client.cluster import NO_TOPIC_ID
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.fetched import Fetched
from tidelog.plugins.client.operations.asking import ask, retrying
from tidelog.plugins.client.operations.leaders import forget_if_stale, leader_of
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
"""From version 13 of Fetch on, topics go by their id."""


@attrs.frozen
class FetchLimits:
    """How much to fetch and how long to wait for it; the defaults are those of Kafka's consumers.

    Attributes:
        max_bytes: of one answer; the first batch comes whole even if it is larger
        min_bytes: the broker waits until there are so many
        max_wait_ms: but no longer than this
        read_committed: stop at open transactions and leave out aborted ones
    """

    max_bytes: int = 1024 * 1024
    min_bytes: int = 1
    max_wait_ms: int = 500
    read_committed: bool = False


DEFAULT_LIMITS: Final = FetchLimits()


def fetch(
    session: Session, partition: TopicPartition, offset: int, limits: FetchLimits = DEFAULT_LIMITS
) -> Steps[Fetched]:
    """What one request brings from `offset` on; no data when there is none in time.

    Raises:
        ErrorResponse: with OFFSET_OUT_OF_RANGE, the offset is before the log's start or beyond its end.
        ClientError: the leader did not answer.
    """
    return (yield from retrying(session, lambda: _attempt(session, partition, offset, limits)))


@attrs.define
class PartitionReader:
    """Goes through a partition from `position` up to `stop`, answer by answer.

    A `stop` of None becomes the end of the log as the first answer tells it; one that lies beyond is waited
    for, without end if it is large enough.
    """

    partition: TopicPartition
    position: int
    stop: int | None = None
    limits: FetchLimits = DEFAULT_LIMITS

    @property
    def finished(self) -> bool:
        """Whether `position` has reached `stop`."""
        return self.stop is not None and self.position >= self.stop

    def poll(self, session: Session) -> Steps[list[Record]]:
        """The records of one more answer, none when there was nothing in time. Raises as `fetch` does.

        Raises:
            CorruptRecords: the answer cannot be read.
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
        answer: FetchResponse = yield from ask(
            session,
            _request(session, partition, offset, limits),
            node=leader,
            at_most=LAST_VERSION_BY_NAME if by_name else None,
            patience_s=limits.max_wait_ms / 1000,
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
    told = _told_of(partition, answer)
    if told.error_code:
        raise ErrorResponse(ErrorCode.of(told.error_code), str(partition), f"offset {offset}")
    return Fetched(
        partition,
        offset,
        told.high_watermark,
        told.last_stable_offset,
        told.log_start_offset,
        told.records if isinstance(told.records, memoryview) else memoryview(b""),
        [(aborted.producer_id, aborted.first_offset) for aborted in told.aborted_transactions or ()],
    )


def _told_of(partition: TopicPartition, answer: FetchResponse) -> PartitionData:
    for topic in answer.responses:
        for part in topic.partitions:
            if part.partition_index == partition.partition:
                return part
    raise ErrorResponse.of_silence(str(partition))
