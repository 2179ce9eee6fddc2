"""Reading the partitions of one Fetch request, in passes, within the limits of its response."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import trio

from tidelog.kernel.errors import BrokerError, FencedLeaderEpoch, NotLeaderOrFollower
from tidelog.kernel.pace import ThreadPace
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.storage import EMPTY_SLICE, LogSlice, WouldBlock
from tidelog.plugins.protocol_kafka.apis.common_fields import isolation_of
from tidelog.plugins.protocol_kafka.apis.current_leader import name_leader
from tidelog.plugins.protocol_kafka.apis.down_conversion import (
    BATCHES_SINCE,
    MAX_FIRST_BYTES,
    NO_MESSAGES,
    PIECE_BYTES,
    Conversion,
    ConvertedRecords,
    converted,
)
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchAbortedTransaction,
    FetchLeaderIdAndEpoch,
    FetchNodeEndpoint,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.plugins.schema.layout import FEW_ELEMENTS

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.log.traffic import TopicTraffic
    from tidelog.kernel.topics import Topic

T = TypeVar("T")

TOPIC_IDS_SINCE = 13
FROM_FOLLOWERS_SINCE = 11
CURRENT_LEADER_SINCE = 16
NO_PARTITION = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class PartitionReads:
    """Reads of partitions for one response; `size`, `is_final` and `partitions` are of the last pass.

    Attributes:
        size: bytes of records in all
        is_final: whether the response is sent immediately, since a partition has an error
        partitions: those that have no error
        endpoints: the addresses of the leaders that errors name
        version: of the request
        pace: of a thread that reads very many partitions
    """

    def __init__(self, context: RequestContext, request: FetchRequest, count: int) -> None:
        """Read `count` partitions; with `pace` set, in a thread that lets others run in between."""
        # All partitions get their share of what is converted before a response is sent.
        self._first_bytes = min(PIECE_BYTES, MAX_FIRST_BYTES // min(max(count, 1), FEW_ELEMENTS))
        self.pace: ThreadPace | None = None
        self.topics, self._replicas = context.broker.topics, context.broker.replicas
        self._max_bytes = min(request.max_bytes, context.fetch_max_bytes)
        self._max_idle_ms = context.max_idle_ms
        self.version = context.api_version
        # Consumers of KIP-392 may read from followers.
        follower_id = max(request.replica_id, request.replica_state.replica_id)
        self._leader_only = self.version < FROM_FOLLOWERS_SINCE or follower_id >= 0
        self._max_wait_ms = request.max_wait_ms
        self._min_bytes = request.min_bytes
        self._context = context
        self.isolation = isolation_of(request.isolation_level)
        self.is_final = False
        self.size = self._held_bytes = 0
        self.partitions: list[UnifiedLog] = []
        self._read_bytes: list[tuple[TopicTraffic, int]] = []
        self.endpoints: list[FetchNodeEndpoint]

    def start_pass(self) -> None:
        """Read all partitions again."""
        self.size = self._held_bytes = 0
        self._read_bytes = []
        self.partitions = []
        self.endpoints = []
        self.is_final = False

    async def in_thread(self, job: Callable[[], T]) -> T:
        """Run a pass that waits for the disk, and for memory for down-conversion."""
        if self.version < BATCHES_SINCE:
            return await self.topics.unpacking.read(job)
        return await trio.to_thread.run_sync(job)

    def sent(self, response: FetchResponse) -> FetchResponse:
        """Return the response to the last pass; what that has read is counted, as the client gets it."""
        for traffic, size_bytes in self._read_bytes:
            traffic.bytes_out += size_bytes
        return response

    def is_enough(self) -> bool:
        """Return whether to respond with the last pass: enough bytes, an error, or no time to wait."""
        return self.size >= self._min_bytes or self._max_wait_ms <= 0 or self.is_final or self.topics.closing

    @property
    def missing_bytes(self) -> int:
        """How many bytes the last pass lacks."""
        return self._min_bytes - self.size

    @property
    def max_wait_seconds(self) -> float:
        """Return how long to wait, in seconds: less than an idle connection may stay open."""
        idle_ms = self._max_idle_ms
        wait_ms = self._max_wait_ms
        return (wait_ms if idle_ms < 0 else min(wait_ms, idle_ms)) / 1000

    def read_partition(self, wait: bool, topic: Topic, asked: FetchPartition) -> PartitionData:
        """Return what the response has of a partition.

        Raises:
            WouldBlock: unless `wait`.
        """
        if self.pace is not None:
            self.pace.turn()
        try:
            partition = self._replicas.log_of(
                topic.name, asked.partition, asked.current_leader_epoch, leader_only=self._leader_only
            )
            # Before the read, so that data appended while a thread reads does not count as read.
            watermarks = partition.watermarks
            high_watermark, last_stable = watermarks.high_watermark, watermarks.last_stable_offset
            records = self._read(partition, asked, wait=wait)
            aborted = None
            if self.isolation is Isolation.READ_COMMITTED and isinstance(records, LogSlice):
                aborted = _aborted(partition, asked.fetch_offset, records, wait=wait)
        except BrokerError as error:
            self._replicas.traffic.of(topic.name).failed_fetches += 1
            failed = self.fail(asked.partition, error_code(error))
            if isinstance(error, NotLeaderOrFollower | FencedLeaderEpoch):
                self._name_leader(topic.name, failed)
            return failed
        self.partitions.append(partition)
        traffic = partition.traffic
        traffic.fetches += 1
        if records.size:
            self.size += records.size
            self._read_bytes.append((traffic, records.size))
        return PartitionData(
            partition_index=asked.partition,
            error_code=0,
            high_watermark=high_watermark,
            last_stable_offset=last_stable,
            log_start_offset=watermarks.log_start_offset,
            aborted_transactions=aborted,
            records=records,
        )

    def _name_leader(self, topic: str, failed: PartitionData) -> None:
        if self.version >= CURRENT_LEADER_SINCE:
            leader_id, epoch = name_leader(
                self._context, topic, failed.partition_index, self.endpoints, FetchNodeEndpoint
            )
            failed.current_leader = FetchLeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)

    def fail(self, index: int, code: int) -> PartitionData:
        """Return the response for a partition that cannot be read."""
        self.is_final = True
        return PartitionData(
            partition_index=index,
            error_code=code,
            high_watermark=-1,
            # As in Kafka, where an answer without a partition is made in another place than all others.
            aborted_transactions=[] if code in NO_PARTITION else None,
            records=b"",
        )

    def _read(
        self, partition: UnifiedLog, asked: FetchPartition, *, wait: bool
    ) -> LogSlice | ConvertedRecords:
        """Read up to the request's limit; the first partition with data returns its first batch whole."""
        left = self._max_bytes - self.size
        allowed = min(asked.partition_max_bytes, left)
        if self.size and allowed <= 0:
            return EMPTY_SLICE
        if self.version < BATCHES_SINCE:
            return self._read_message_set(partition, asked.fetch_offset, allowed, wait=wait)
        records = partition.read(asked.fetch_offset, allowed, self.isolation, wait=wait)
        # A log returns its first batch whole. Only the first one of a response may exceed the limit (KIP-74).
        return EMPTY_SLICE if self.size and records.size > allowed else records

    def _shown_in_thread(self, partition: UnifiedLog) -> Callable[[LogSlice], LogSlice] | None:
        """Return what shows a slice to the interceptors of a topic, None if it has none."""
        if self._context.broker.interception is None:
            return None
        # Not at the top: nearly no broker needs it.
        from tidelog.plugins.protocol_kafka.apis.fetch_interceptors import shown_in_thread

        return shown_in_thread(self._context, partition)

    def _read_message_set(
        self, partition: UnifiedLog, offset: int, allowed: int, *, wait: bool
    ) -> ConvertedRecords:
        if not wait:
            raise WouldBlock

        show = self._shown_in_thread(partition)

        def read(start: int, max_bytes: int = PIECE_BYTES) -> LogSlice:
            stored = partition.read(start, max_bytes, self.isolation, wait=True)
            return stored if show is None else show(stored)

        stored = read(offset, max(allowed, 1))
        if not stored.size:
            return NO_MESSAGES
        unpacking = partition.unpacking
        conversion = Conversion(read, offset, self.version, unpacking)
        first_bytes = self._first_bytes if self._held_bytes < MAX_FIRST_BYTES else 0
        records = converted(conversion, stored, allowed, unpacking.read, first_bytes)
        self._held_bytes += records.held_bytes
        return records


def _aborted(
    partition: UnifiedLog, offset: int, records: LogSlice, *, wait: bool
) -> list[FetchAbortedTransaction]:
    """Return the aborted transactions that a read-committed consumer has to skip in this data."""
    return [
        FetchAbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in partition.aborted_transactions(offset, records, wait=wait)
    ]
