"""ListOffsets (API 2): offsets by timestamp, and the ends of logs by special timestamps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tidelog.kernel.errors import BrokerError, InvalidRequest, UnknownTopicOrPartition, UnsupportedVersion
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.partition import NO_LEADER_EPOCH, Isolation, Partition, TimestampOffset
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.handlers.common_fields import isolation_of
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

FIRST_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
NOTHING_FOUND = TimestampOffset(-1, -1, -1)
NO_TIME = -1
LEADER_EPOCH_SINCE = 4


async def handle(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Look up the offset of each partition; lookups that read the log run in a thread.

    As in Apache Kafka a partition that is repeated is refused.
    """
    isolation = isolation_of(request.isolation_level)
    pace = Pace()
    asked: dict[str, dict[int, list[ListOffsetsPartition]]] = {}
    for topic in request.topics:
        partitions = asked.setdefault(topic.name, {})
        for part in topic.partitions:
            partitions.setdefault(part.partition_index, []).append(part)
            await pace.turn()
    answers: list[ListOffsetsTopicResponse] = []
    for name, partitions in asked.items():
        found: list[ListOffsetsPartitionResponse] = []
        for parts in partitions.values():
            found.append(await _answer(context, name, parts[0], isolation, len(parts)))
            await pace.turn()
        answers.append(ListOffsetsTopicResponse(name=name, partitions=found))
    return ListOffsetsResponse(topics=answers)


async def _answer(
    context: RequestContext, name: str, asked: ListOffsetsPartition, isolation: Isolation, times_asked: int
) -> ListOffsetsPartitionResponse:
    index, version = asked.partition_index, context.api_version
    try:
        if times_asked > 1:
            raise InvalidRequest(f"{name}-{index} is asked for {times_asked} times in one request")
        partition = _find(context, name, index)
        partition.check_leader_epoch(asked.current_leader_epoch)
        if version == 0:
            offsets = _old_style_offsets(partition, asked.timestamp, asked.max_num_offsets)
            return ListOffsetsPartitionResponse(
                partition_index=index, error_code=0, old_style_offsets=offsets
            )
        found = await _look_up(partition, asked.timestamp, isolation, version)
    except BrokerError as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error_code(error))
    return ListOffsetsPartitionResponse(
        partition_index=index,
        error_code=0,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch if version >= LEADER_EPOCH_SINCE else NO_LEADER_EPOCH,
    )


def _find(context: RequestContext, name: str, index: int) -> Partition:
    topic = context.broker.topics.get(name)
    if not 0 <= index < len(topic.partitions):
        raise UnknownTopicOrPartition(f"topic {name!r} has no partition {index}")
    return topic.partitions[index]


async def _look_up(partition: Partition, time: int, isolation: Isolation, version: int) -> TimestampOffset:
    if version < FIRST_VERSION_OF.get(time, 0):
        raise UnsupportedVersion(
            f"the special time {time} needs version {FIRST_VERSION_OF[time]} of ListOffsets"
        )
    if time == LATEST:
        return TimestampOffset(NO_TIME, partition.readable_end(isolation), partition.leader_epoch)
    if time in (EARLIEST, EARLIEST_LOCAL):
        start = partition.log_start_offset
        return TimestampOffset(NO_TIME, start, partition.epochs.epoch_for(start))
    if time in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING_FOUND
    if time < 0 and time != MAX_TIMESTAMP:
        raise UnsupportedVersion(f"{time} is neither a time nor one of the special times")
    found = await partition.unpacking.read(_search(partition, time))
    if found is None or found.offset >= partition.readable_end(isolation):
        return NOTHING_FOUND
    return found


def _search(partition: Partition, time: int) -> Callable[[], TimestampOffset | None]:
    if time == MAX_TIMESTAMP:
        return partition.offset_of_max_timestamp
    return partial(partition.offset_for_timestamp, time)


def _old_style_offsets(partition: Partition, time: int, max_offsets: int) -> list[int]:
    """Answer version 0 with base offsets of segments, newest first, and the high watermark as the latest."""
    if time == EARLIEST:
        return [partition.log_start_offset][:max_offsets]
    if time == LATEST:
        bases = [segment.base_offset for segment in reversed(partition.store.segments())]
        offsets = [partition.high_watermark, *(base for base in bases if base < partition.high_watermark)]
        return offsets[: max(max_offsets, 0)]
    return segment_offsets_before(partition, time, max(max_offsets, 0))


def segment_offsets_before(partition: Partition, timestamp_ms: int, max_offsets: int) -> list[int]:
    """Return base offsets of segments that were last changed by `timestamp_ms`, newest first."""
    segments = partition.store.segments()
    offsets = [segment.base_offset for segment in segments if segment.last_modified_ms <= timestamp_ms]
    return offsets[::-1][:max_offsets]
