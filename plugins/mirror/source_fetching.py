"""Fetching from the source: from where on each partition is fetched, and what the target gets of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs
import trio

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.errors import ClientError, CorruptRecords, ErrorResponse
from tidelog.plugins.client.fetch_sessions import FetchSessions
from tidelog.plugins.client.fetched import Fetched
from tidelog.plugins.client.operations.fetching import FetchLimits, fetch_partitions
from tidelog.plugins.client.operations.offsets import list_offsets
from tidelog.plugins.client.producer.hashing import murmur2
from tidelog.plugins.mirror.copy_plan import CopyPlan
from tidelog.plugins.mirror.source_batches import FetchedBatches, OutgoingBatch
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tidelog.plugins.mirror.cluster_client import MirrorClient
    from tidelog.plugins.mirror.failing_partitions import FailingPartitions
    from tidelog.plugins.mirror.ledger_reading import SourceMirrors
    from tidelog.plugins.mirror.settings import MirrorSettings
    from tidelog.plugins.mirror.statistics import MirrorStatistics

_log: Final = logging.getLogger(__name__)

_MAX_WAIT_MS: Final = 500
_LEAST_PARTITION_BYTES: Final = 128 * 1024


@attrs.frozen
class CopiedPart:
    """What a chunk has of one partition of the source.

    Attributes:
        partition: of the source
        batches: by partition of the target
        next_offset: of the source, behind this part
        behind: how many offsets of the source follow it
    """

    partition: TopicPartition
    batches: dict[TopicPartition, list[OutgoingBatch]]
    next_offset: int
    behind: int


class SourceFetcher:
    """Fetches chunk after chunk, each from where the one before has ended, whether that is committed or not.

    Attributes:
        ends: where to stop in each partition, None to continue for ever
    """

    def __init__(
        self,
        settings: MirrorSettings,
        source: MirrorClient,
        source_admin: MirrorClient,
        positions: Mapping[TopicPartition, int],
        failing: FailingPartitions,
        statistics: MirrorStatistics,
    ) -> None:
        """Take the committed `positions`, from which on a partition is fetched first."""
        self.ends: Mapping[TopicPartition, int] | None = None
        self._settings = settings
        self._source, self._source_admin = source, source_admin
        self._positions = positions
        self._failing = failing
        self._statistics = statistics
        self._mirrors: SourceMirrors | None = None
        self._plan = CopyPlan()
        self._fetch_from: dict[TopicPartition, int] = {}
        self._sessions = FetchSessions()

    def restart(self) -> None:
        """Fetch from the committed positions again."""
        self._fetch_from, self._sessions = {}, FetchSessions()

    def follow(self, plan: CopyPlan, begun_again: Collection[str], mirrors: SourceMirrors) -> None:
        """Fetch what a plan has; topics that were begun again from their new positions."""
        self._plan, self._mirrors = plan, mirrors
        self._fetch_from = {
            each: offset
            for each, offset in self._fetch_from.items()
            if each in plan.copies and each.topic not in begun_again
        }

    async def fetch_until(self, send: trio.MemorySendChannel[list[CopiedPart]], due: float) -> None:
        """Send chunks until a time, or until the ends are reached; raises ClientError."""
        async with send:
            while trio.current_time() < due and not self._has_fetched_ends():
                offsets = self._offsets_to_fetch()
                if not offsets:
                    await trio.sleep(min(_MAX_WAIT_MS / 1000, max(0.0, due - trio.current_time())))
                    continue
                parts = await self._fetch(offsets)
                if parts:
                    await send.send(parts)

    def _has_fetched_ends(self) -> bool:
        return self.ends is not None and all(
            self._fetch_from.get(each, 0) >= end
            for each, end in self.ends.items()
            if each in self._plan.copies
        )

    def _offsets_to_fetch(self) -> dict[TopicPartition, int]:
        offsets: dict[TopicPartition, int] = {}
        for partition in self._plan.copies:
            if self._failing.is_paused(partition):
                continue
            offset = self._fetch_from.setdefault(partition, self._positions[partition])
            if self.ends is None or offset < self.ends.get(partition, 0):
                offsets[partition] = offset
        return offsets

    async def _fetch(self, offsets: dict[TopicPartition, int]) -> list[CopiedPart]:
        most_bytes = self._settings.fetch_bytes
        limits = FetchLimits(
            max_bytes=most_bytes,
            max_wait_ms=_MAX_WAIT_MS,
            read_committed=True,
            # A request to the target has a batch of each partition, so that they cost less together.
            max_partition_bytes=max(_LEAST_PARTITION_BYTES, most_bytes // len(offsets)),
        )
        outcomes = await self._source.run(fetch_partitions, offsets, limits, self._sessions)
        fetched: list[Fetched] = []
        for partition, outcome in outcomes.items():
            if isinstance(outcome, ClientError):
                await self._fetch_failed(partition, offsets[partition], outcome)
            elif len(outcome.data):
                fetched.append(outcome)
            else:
                self._statistics.note_lag(partition, _end_of(outcome) - outcome.offset)
        if not fetched:
            return []
        # CRCs, and decoding where it is needed, would have the event loop for long.
        read = await trio.to_thread.run_sync(_read_all, fetched)
        left_out = await self._left_out(read)
        parts: list[CopiedPart] = []
        for each, part in zip(
            fetched, await trio.to_thread.run_sync(self._prepare_all, read, left_out), strict=True
        ):
            if isinstance(part, CorruptRecords):
                self._failing.failed(each.partition, str(part))
            else:
                self._fetch_from[each.partition] = part.next_offset
                parts.append(part)
        return parts

    async def _left_out(self, read: Sequence[FetchedBatches | CorruptRecords]) -> frozenset[int]:
        """Return the producer ids whose records are not copied, those of all that was fetched included."""
        mirrors = self._mirrors
        if mirrors is None:
            return frozenset()
        ids = {each_id for each in read if isinstance(each, FetchedBatches) for each_id in each.producer_ids}
        if not mirrors.knows(ids):
            await self._source_admin.run(mirrors.refresh, ids)
        return mirrors.left_out()

    def _prepare_all(
        self, read: Sequence[FetchedBatches | CorruptRecords], left_out: frozenset[int]
    ) -> list[CopiedPart | CorruptRecords]:
        prepared: list[CopiedPart | CorruptRecords] = []
        for each in read:
            try:
                prepared.append(each if isinstance(each, CorruptRecords) else self._prepare(each, left_out))
            except CorruptRecords as error:
                prepared.append(error)
        return prepared

    def _prepare(self, read: FetchedBatches, left_out: frozenset[int]) -> CopiedPart:
        """Return the batches of a partition as the target gets them."""
        partition = read.fetched.partition
        behind = max(0, _end_of(read.fetched) - read.next_offset)
        if self._settings.keeps_partitions:
            batches = read.outgoing(without=left_out, most_bytes=self._failing.most_bytes(partition))
            by_target = {self._plan.copies[partition]: batches} if batches else {}
            return CopiedPart(partition, by_target, read.next_offset, behind)
        route = self._plan.routes[partition.topic]
        count = route.target_partitions

        def partition_of(key: bytes | None) -> int:
            # Without a key the order of a partition is kept.
            return partition.partition % count if key is None else (murmur2(key) & 0x7FFFFFFF) % count

        hashed = read.hashed(partition_of, without=left_out)
        by_target = {TopicPartition(route.target, number): batches for number, batches in hashed.items()}
        return CopiedPart(partition, by_target, read.next_offset, behind)

    async def _fetch_failed(self, partition: TopicPartition, offset: int, error: ClientError) -> None:
        if not isinstance(error, ErrorResponse):
            raise error
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            self._failing.failed(partition, f"the source refuses: {error}")
            return
        found = await self._source_admin.run(list_offsets, [partition], EARLIEST_TIMESTAMP)
        start = found[partition]
        if isinstance(start, ClientError):
            self._failing.failed(partition, f"the source refuses: {start}")
        elif start.offset > offset:
            _log.warning(
                "mirror %s: %s: the source has deleted the offsets %d to %d before they were copied",
                self._settings.name, partition, offset, start.offset - 1,
            )  # fmt: skip
            self._statistics.lost += start.offset - offset
            self._fetch_from[partition] = start.offset
        else:
            self._failing.failed(
                partition,
                f"the source has less than the {offset} offsets that were copied: it was truncated, or the "
                "topic is another one",
            )


def _read_all(fetched: Sequence[Fetched]) -> list[FetchedBatches | CorruptRecords]:
    read: list[FetchedBatches | CorruptRecords] = []
    for each in fetched:
        try:
            read.append(FetchedBatches.of(each))
        except CorruptRecords as error:
            read.append(error)
    return read


def _end_of(fetched: Fetched) -> int:
    """Return the offset behind all that can be read."""
    return fetched.last_stable_offset if fetched.last_stable_offset >= 0 else fetched.high_watermark
