"""Fetching from the source: from where on each partition is fetched, and what the target gets of it."""

from __future__ import annotations

import logging
from enum import Enum
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
from tidelog.plugins.mirror.following import NO_ID, ids_differ
from tidelog.plugins.mirror.ledger import NO_EPOCH
from tidelog.plugins.mirror.source_batches import FetchedBatches, OutgoingBatch
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tidelog.plugins.client.operations.sending import Outcomes
    from tidelog.plugins.client.steps import Session, Steps
    from tidelog.plugins.mirror.cluster_client import MirrorClient
    from tidelog.plugins.mirror.failing_partitions import FailingPartitions
    from tidelog.plugins.mirror.ledger import Ledger
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
        first_epoch: leader epoch of its first batch
        last_epoch: leader epoch of its last batch
    """

    partition: TopicPartition
    batches: dict[TopicPartition, list[OutgoingBatch]]
    next_offset: int
    behind: int
    first_epoch: int
    last_epoch: int


class Doubt(Enum):
    """Why the log of a partition may be another one than what was copied of it."""

    EPOCH = "another leader has appended what follows"
    SHORTER = "it is shorter"
    TOPIC = "its topic was made again"


class _Chunk:
    """What one fetch has returned, and where the next one continues as soon as `is_read` is set."""

    def __init__(self, fetched: Sequence[Fetched], token: trio.lowlevel.TrioToken) -> None:
        self.fetched = fetched
        self.next_offsets: dict[TopicPartition, int] = {}
        self.is_read = trio.Event()
        self._token = token

    def read(self) -> list[FetchedBatches | CorruptRecords]:
        """Return each part, its headers read; a thread calls this."""
        read = [_read(each) for each in self.fetched]
        self.next_offsets = {
            each.fetched.partition: each.next_offset for each in read if isinstance(each, FetchedBatches)
        }
        self._token.run_sync_soon(self.is_read.set)
        return read


class SourceFetcher:
    """Fetches chunk after chunk, each from where the one before has ended, whether that is committed or not.

    Attributes:
        ends: where to stop in each partition, None to continue for ever
        doubtful: partitions whose log may be another one than what was copied, and why
    """

    def __init__(
        self,
        settings: MirrorSettings,
        source: MirrorClient,
        source_admin: MirrorClient,
        ledger: Ledger,
        failing: FailingPartitions,
        statistics: MirrorStatistics,
    ) -> None:
        """Take the ledger, from whose positions on a partition is fetched first."""
        self.ends: Mapping[TopicPartition, int] | None = None
        self.doubtful: dict[TopicPartition, Doubt] = {}
        self._settings = settings
        self._source, self._source_admin = source, source_admin
        self._ledger = ledger
        self._failing = failing
        self._statistics = statistics
        self._mirrors: SourceMirrors | None = None
        self._plan = CopyPlan()
        self._fetch_from: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._sessions = FetchSessions()

    def restart(self) -> None:
        """Fetch from the committed positions again."""
        self._fetch_from, self._epochs, self.doubtful = {}, {}, {}
        self._sessions = FetchSessions()

    def follow(self, plan: CopyPlan, begun_again: Collection[str], mirrors: SourceMirrors) -> None:
        """Fetch what a plan has; topics that were begun again from their new positions."""
        self._plan, self._mirrors = plan, mirrors
        self._fetch_from = {
            each: offset
            for each, offset in self._fetch_from.items()
            if each in plan.copies and each.topic not in begun_again
        }
        self._epochs = {each: epoch for each, epoch in self._epochs.items() if each in self._fetch_from}

    def continue_at(self, partition: TopicPartition, offset: int) -> None:
        """Fetch a partition that was doubtful, whatever the epoch there."""
        self.doubtful.pop(partition, None)
        self._fetch_from[partition], self._epochs[partition] = offset, NO_EPOCH

    async def fetch_until(self, send: trio.MemorySendChannel[list[CopiedPart]], due: float) -> None:
        """Send chunks until a time, up to the ends, or until a partition is doubtful; raises ClientError."""
        async with send:
            while not (
                trio.current_time() >= due or self.doubtful or self._has_fetched_ends(self._fetch_from)
            ):
                for partition, error in (await self._fetch_ahead(send, due)).items():
                    await self._fetch_failed(partition, self._fetch_from[partition], error)

    async def _fetch_ahead(
        self, send: trio.MemorySendChannel[list[CopiedPart]], due: float
    ) -> Mapping[TopicPartition, ErrorResponse]:
        """Send chunks until it is due, or something fails; return what the source refuses.

        The source sends the next chunk while the one before is verified. If that is corrupt, so that its
        partition has to be fetched again, all that was fetched ahead is dropped.
        """
        ledger = self._ledger
        ahead = {each: self._fetch_from.get(each, ledger.positions[each]) for each in self._plan.copies}
        self._fetch_from = dict(ahead)
        self._epochs = {each: self._epochs.get(each, ledger.epochs[each]) for each in self._plan.copies}
        refused: dict[TopicPartition, ErrorResponse] = {}
        hand_over, take = trio.open_memory_channel[_Chunk](0)
        async with trio.open_nursery() as nursery, hand_over:
            nursery.start_soon(self._prepare_each, take, send)
            while trio.current_time() < due and not self._has_fetched_ends(ahead) and not refused:
                wanted = self._wanted(ahead)
                if not wanted:
                    await trio.sleep(min(_MAX_WAIT_MS / 1000, max(0.0, due - trio.current_time())))
                    continue
                fetched = await self._fetch(wanted, refused)
                if not fetched:
                    continue
                chunk = _Chunk(fetched, trio.lowlevel.current_trio_token())
                try:
                    await hand_over.send(chunk)
                except trio.BrokenResourceError:
                    break
                await chunk.is_read.wait()
                ahead.update(chunk.next_offsets)
        return refused

    def _has_fetched_ends(self, offsets: Mapping[TopicPartition, int]) -> bool:
        return self.ends is not None and all(
            offsets.get(each, 0) >= end for each, end in self.ends.items() if each in self._plan.copies
        )

    def _wanted(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {
            partition: offset
            for partition, offset in offsets.items()
            if not self._failing.is_paused(partition)
            and (self.ends is None or offset < self.ends.get(partition, 0))
        }

    async def _fetch(
        self, offsets: dict[TopicPartition, int], refused: dict[TopicPartition, ErrorResponse]
    ) -> list[Fetched]:
        most_bytes = self._settings.fetch_bytes
        limits = FetchLimits(
            max_bytes=most_bytes,
            max_wait_ms=_MAX_WAIT_MS,
            read_committed=True,
            # A request to the target has a batch of each partition, so that they cost less together.
            max_partition_bytes=max(_LEAST_PARTITION_BYTES, most_bytes // len(offsets)),
        )
        topic_ids = {name: route.source.topic_id for name, route in self._plan.routes.items()}
        outcomes = await self._source.run(_fetch_known, offsets, limits, self._sessions, topic_ids)
        fetched: list[Fetched] = []
        for partition, outcome in outcomes.items():
            if isinstance(outcome, ErrorResponse):
                refused[partition] = outcome
            elif isinstance(outcome, ClientError):
                raise outcome
            elif len(outcome.data):
                fetched.append(outcome)
            else:
                self._statistics.note_lag(partition, _end_of(outcome) - outcome.offset)
        return fetched

    async def _prepare_each(
        self, take: trio.MemoryReceiveChannel[_Chunk], send: trio.MemorySendChannel[list[CopiedPart]]
    ) -> None:
        """Send each chunk as the target gets it; end after one of which a part is corrupt, or doubtful."""
        async with take:
            async for chunk in take:
                parts: list[CopiedPart] = []
                for each, part in zip(chunk.fetched, await self._prepared(chunk), strict=True):
                    if isinstance(part, CorruptRecords):
                        self._failing.failed(each.partition, str(part))
                    elif not self._continues(part):
                        self.doubtful[each.partition] = Doubt.EPOCH
                    else:
                        self._fetch_from[each.partition] = part.next_offset
                        self._epochs[each.partition] = part.last_epoch
                        parts.append(part)
                if parts:
                    await send.send(parts)
                if len(parts) < len(chunk.fetched):
                    return

    def _continues(self, part: CopiedPart) -> bool:
        """Return whether the same leader has appended what was copied last; True where that is unknown."""
        known = self._epochs[part.partition]
        return NO_EPOCH in (known, part.first_epoch) or known == part.first_epoch

    async def _prepared(self, chunk: _Chunk) -> list[CopiedPart | CorruptRecords]:
        """Return what the target gets of each partition, or why it gets nothing."""
        # CRCs, and decoding where it is needed, would have the event loop for long.
        read, prepared = await trio.to_thread.run_sync(self._read_chunk, chunk)
        if prepared is not None:
            return prepared
        if self._mirrors is not None:
            await self._source_admin.run(self._mirrors.refresh, _producer_ids(read))
        return await trio.to_thread.run_sync(self._prepare_all, read)

    def _read_chunk(
        self, chunk: _Chunk
    ) -> tuple[list[FetchedBatches | CorruptRecords], list[CopiedPart | CorruptRecords] | None]:
        """Read a chunk, and prepare it where it is known of all producers if they are mirrors."""
        read = chunk.read()
        is_known = self._mirrors is None or self._mirrors.knows(_producer_ids(read))
        return read, self._prepare_all(read) if is_known else None

    def _prepare_all(
        self, read: Sequence[FetchedBatches | CorruptRecords]
    ) -> list[CopiedPart | CorruptRecords]:
        left_out = frozenset[int]() if self._mirrors is None else self._mirrors.left_out()
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
        place = (read.next_offset, behind, read.batches[0][0].leader_epoch, read.batches[-1][0].leader_epoch)
        if self._settings.keeps_partitions:
            batches = read.outgoing(without=left_out, most_bytes=self._failing.most_bytes(partition))
            by_target = {self._plan.copies[partition]: batches} if batches else {}
            return CopiedPart(partition, by_target, *place)
        route = self._plan.routes[partition.topic]
        count = route.target_partitions

        def partition_of(key: bytes | None) -> int:
            # Without a key the order of a partition is kept.
            return partition.partition % count if key is None else (murmur2(key) & 0x7FFFFFFF) % count

        hashed = read.hashed(partition_of, without=left_out)
        by_target = {TopicPartition(route.target, number): batches for number, batches in hashed.items()}
        return CopiedPart(partition, by_target, *place)

    async def _fetch_failed(self, partition: TopicPartition, offset: int, error: ErrorResponse) -> None:
        if error.code is ErrorCode.INCONSISTENT_TOPIC_ID:
            self.doubtful[partition] = Doubt.TOPIC
            return
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
            self.doubtful[partition] = Doubt.SHORTER


def _fetch_known(
    session: Session,
    offsets: Mapping[TopicPartition, int],
    limits: FetchLimits,
    fetch_sessions: FetchSessions,
    topic_ids: Mapping[str, str],
) -> Steps[Outcomes[TopicPartition, Fetched]]:
    """Fetch, with an error for partitions of topics that have other ids: they are other topics by now."""
    outcomes = yield from fetch_partitions(session, offsets, limits, fetch_sessions)
    # After the response: what was fetched under another id was fetched after the client had that id.
    others = {
        topic
        for topic in {each.topic for each in offsets}
        if ids_differ(topic_ids.get(topic, NO_ID), session.cluster.topic_id(topic).hex)
    }
    for partition in offsets:
        if partition.topic in others:
            outcomes[partition] = ErrorResponse(ErrorCode.INCONSISTENT_TOPIC_ID, str(partition))
    return outcomes


def _read(fetched: Fetched) -> FetchedBatches | CorruptRecords:
    try:
        return FetchedBatches.of(fetched)
    except CorruptRecords as error:
        return error


def _producer_ids(read: Iterable[FetchedBatches | CorruptRecords]) -> set[int]:
    return {each_id for each in read if isinstance(each, FetchedBatches) for each_id in each.producer_ids}


def _end_of(fetched: Fetched) -> int:
    """Return the offset behind all that can be read."""
    return fetched.last_stable_offset if fetched.last_stable_offset >= 0 else fetched.high_watermark
