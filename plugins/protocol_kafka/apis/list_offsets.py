"""ListOffsets (API 2): offsets by timestamp, and the ends of logs by special timestamps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tidelog.kernel.errors import (
    BrokerError,
    InvalidRequest,
    StorageError,
    UnsupportedVersion,
)
from tidelog.kernel.leader_epochs import NO_OFFSET
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.partition import NO_LEADER_EPOCH, Isolation, TimestampOffset
from tidelog.plugins.protocol_kafka.apis.common_fields import isolation_of
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog

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
CONSUMER = -1
"""The `replica_id` of consumers."""
DEBUGGING = -2
"""The `replica_id` of tools that ask a certain replica, whether it leads or not."""


async def handle(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Look up the offset of each partition; lookups that read the log run in a thread.

    As in Apache Kafka a partition that is repeated is refused. Version 0 returns it once, where Kafka repeats
    a list that may be long.
    """
    asker = _Asker(context, isolation_of(request.isolation_level), request.replica_id)
    pace = Pace()
    asked: dict[str, dict[int, list[ListOffsetsPartition]]] = {}
    for topic in request.topics:
        partitions = asked.setdefault(topic.name, {})
        for part in topic.partitions:
            partitions.setdefault(part.partition_index, []).append(part)
            await pace.turn()
        await pace.turn()
    answers: list[ListOffsetsTopicResponse] = []
    for name, partitions in asked.items():
        found: list[ListOffsetsPartitionResponse] = []
        for parts in partitions.values():
            found.append(await asker.answer(name, parts[0], len(parts)))
            await pace.turn()
        answers.append(ListOffsetsTopicResponse(name=name, partitions=found))
        await pace.turn()
    return ListOffsetsResponse(topics=answers)


class _Asker:
    """The client of a request: what it may see, and in which form."""

    def __init__(self, context: RequestContext, isolation: Isolation, replica_id: int) -> None:
        self._context = context
        self._version = context.api_version
        self._isolation = isolation
        self._is_consumer = replica_id == CONSUMER
        self._leader_only = replica_id != DEBUGGING

    async def answer(
        self, name: str, asked: ListOffsetsPartition, times_asked: int
    ) -> ListOffsetsPartitionResponse:
        """Return the response for a partition of the topic `name`."""
        index, version = asked.partition_index, self._version
        try:
            if times_asked > 1 and version:
                raise InvalidRequest(f"{name}-{index} is asked for {times_asked} times in one request")
            log = self._context.broker.replicas.log_of(
                name, index, asked.current_leader_epoch, leader_only=self._leader_only
            )
            if not version:
                offsets = await self._old_style_offsets(log, asked)
                return ListOffsetsPartitionResponse(
                    partition_index=index, error_code=0, old_style_offsets=offsets
                )
            found = await _look_up(log, asked.timestamp, self._isolation, version)
        except BrokerError as error:
            return ListOffsetsPartitionResponse(partition_index=index, error_code=error_code(error))
        return ListOffsetsPartitionResponse(
            partition_index=index,
            error_code=0,
            timestamp=found.timestamp_ms,
            offset=found.offset,
            leader_epoch=found.leader_epoch if version >= LEADER_EPOCH_SINCE else NO_LEADER_EPOCH,
        )

    async def _old_style_offsets(self, log: UnifiedLog, asked: ListOffsetsPartition) -> list[int]:
        if asked.timestamp < EARLIEST:
            raise UnsupportedVersion(f"version 0 of ListOffsets has no special time {asked.timestamp}")
        now_ms = self._context.broker.clock()
        found = await log.unpacking.read(
            partial(segment_offsets_before, log, asked.timestamp, asked.max_num_offsets, now_ms)
        )
        high_watermark = log.high_watermark
        if self._is_consumer and found and found[0] > high_watermark:
            return [high_watermark, *(offset for offset in found if offset <= high_watermark)]
        return found


async def _look_up(log: UnifiedLog, time: int, isolation: Isolation, version: int) -> TimestampOffset:
    if version < FIRST_VERSION_OF.get(time, 0):
        raise UnsupportedVersion(
            f"the special time {time} needs version {FIRST_VERSION_OF[time]} of ListOffsets"
        )
    if time == LATEST:
        return TimestampOffset(NO_TIME, log.readable_end(isolation), log.leader_epoch)
    if time in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        # As in Kafka, whose leaders begin their epoch in the lineage before there is a record.
        is_new = log.epochs.first_offset == NO_OFFSET
        return TimestampOffset(NO_TIME, start, log.leader_epoch if is_new else log.epochs.epoch_for(start))
    if time in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING_FOUND
    if time < 0 and time != MAX_TIMESTAMP:
        raise UnsupportedVersion(f"{time} is neither a time nor one of the special times")
    found = await log.unpacking.read(_search(log, time))
    # Found in the log as it is; the client may not see what is not committed.
    if found is None or found.offset >= log.readable_end(isolation):
        return NOTHING_FOUND
    return found


def _search(log: UnifiedLog, time: int) -> Callable[[], TimestampOffset | None]:
    if time == MAX_TIMESTAMP:
        return log.offset_of_max_timestamp
    return partial(log.offset_for_timestamp, time)


def segment_offsets_before(log: UnifiedLog, time: int, max_offsets: int, now_ms: int) -> list[int]:
    """Blocking: return base offsets of segments, and the log end, newest first.

    Each segment counts with the time when its file was last changed, the log end with `now_ms` unless the
    last segment is empty. The newest of them that is not after `time` is found, and all below it count,
    whatever their times.

    Raises:
        StorageError: the disk refused.

    Source: Apache Kafka 3.9, `UnifiedLog.legacyFetchOffsetsBefore`.
    """
    try:
        segments = log.store.segments()
    except OSError as error:
        raise StorageError(f"{log.topic_partition} cannot be read: {error}") from error
    start = log.log_start_offset
    known = [(max(segment.base_offset, start), segment.last_modified_ms) for segment in segments]
    if segments[-1].size_bytes:
        known.append((log.watermarks.log_end_offset, now_ms))
    if time == EARLIEST:
        del known[1:]
    while time >= 0 and known and known[-1][1] > time:
        del known[-1]
    return [offset for offset, _ in reversed(known)][: max(max_offsets, 0)]
