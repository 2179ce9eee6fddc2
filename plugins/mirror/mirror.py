"""One mirror: a loop of setting up, copying, and following topics and groups.

    recover ──▶ follow topics ──▶ copy until something is due ──▶ follow topics ──▶ ...
       ▲                              │ any error: the transaction is aborted
       └──────────────────────────────┘

There is one way into the loop, after a start as after an error: `recover` fences what the transactional id
did before, so that a transaction in doubt is committed or aborted, and reads the ledger. What is in memory of
an aborted transaction is dropped. So a crash at any point and an error at any point are the same case.

Copying is two tasks: one fetches and prepares the next chunk while the other appends the one before. Only the
second uses the producer, and only between transactions does anything else.
"""

from __future__ import annotations

import logging
import secrets
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

import attrs
import trio

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.errors import (
    ClientError,
    CorruptRecords,
    ErrorResponse,
    UnsendableRequest,
    UnsupportedByBroker,
)
from tidelog.plugins.client.fetch_sessions import FetchSessions
from tidelog.plugins.client.fetched import Fetched
from tidelog.plugins.client.operations.fetching import FetchLimits, fetch_partitions
from tidelog.plugins.client.operations.metadata import describe_cluster
from tidelog.plugins.client.operations.offsets import list_offsets
from tidelog.plugins.client.operations.sending import or_raise
from tidelog.plugins.client.operations.transactions import init_transactions
from tidelog.plugins.client.producer.hashing import murmur2
from tidelog.plugins.mirror.errors import MirrorRefused, PartitionRefused
from tidelog.plugins.mirror.following import Followed, follow_topics, partitions_of, survey
from tidelog.plugins.mirror.group_sync import source_groups, sync_groups, translated
from tidelog.plugins.mirror.ledger import (
    Ledger,
    ledger_topic,
    mirror_record,
    producer_record,
    start_record,
)
from tidelog.plugins.mirror.ledger_reading import LedgerReader, SourceMirrors, create_ledger_topic
from tidelog.plugins.mirror.offset_translation import CopiedRun
from tidelog.plugins.mirror.source_batches import FetchedBatches, OutgoingBatch
from tidelog.plugins.mirror.statistics import CONNECTING, COPYING, FAILED, STOPPED, MirrorStatistics
from tidelog.plugins.mirror.transactional_writes import (
    append_in_transaction,
    commit_with_ledger,
    prepare_append,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tidelog.plugins.client.batches import NewRecord
    from tidelog.plugins.client.producers import TransactionalProducer
    from tidelog.plugins.client.steps import Steps
    from tidelog.plugins.mirror.settings import MirrorSettings

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)

_MAX_WAIT_MS: Final = 500
_APPENDS_IN_FLIGHT: Final = 3
"""So that the target has the next chunk while the acknowledgement of the one before is under way."""
_LEAST_PARTITION_BYTES: Final = 128 * 1024
_MOST_PARTITION_BACKOFFS: Final = 6
_MOST_ATTEMPTS: Final = 3
"""Of a partition, before a copy to the end gives up."""
_UNTIL_END_S: Final = 5.0
"""How often a copy to the end looks whether a partition keeps failing."""


class MirrorClient(Protocol):
    """A client of a cluster, as `TrioClient` is one."""

    async def run(self, operation: Callable[..., Steps[T]], *args: Any, **kwargs: Any) -> T:
        """Run an operation to its end."""
        ...


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


@attrs.define
class _Trouble:
    """A partition that failed: when it is tried again, and how large its batches may be."""

    attempts: int = 0
    retry_at: float = 0.0
    most_bytes: int | None = None


@attrs.define
class _Append:
    """A chunk that was sent, and when it is acknowledged the base offsets of its batches."""

    parts: Sequence[CopiedPart]
    offsets: Mapping[TopicPartition, Sequence[int]] | None = None


@attrs.define
class _Transaction:
    """The open transaction: what it has copied, and when it is committed.

    Several appends are in flight, and the tasks that wait for them continue in any order, also on one
    connection. So an append counts only when all that were sent before it do: otherwise the position could
    be set back to that of an earlier chunk, and the runs of a partition would not be in the order of offsets.
    """

    commit_at: float
    notes_runs: bool
    positions: dict[TopicPartition, int] = attrs.field(factory=dict[TopicPartition, int])
    runs: dict[TopicPartition, list[CopiedRun]] = attrs.field(factory=dict[TopicPartition, list[CopiedRun]])
    behind: dict[TopicPartition, int] = attrs.field(factory=dict[TopicPartition, int])
    records: int = 0
    batches: int = 0
    copied_bytes: int = 0
    _sent: deque[_Append] = attrs.field(factory=deque[_Append])

    def sending(self, parts: Sequence[CopiedPart]) -> _Append:
        """Add a chunk behind all before it; it has to be acknowledged."""
        append = _Append(parts)
        self._sent.append(append)
        return append

    def acknowledged(self, append: _Append, offsets: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Count an append, unless one before is not acknowledged yet: then that one counts both."""
        append.offsets = offsets
        while self._sent and self._sent[0].offsets is not None:
            counted = self._sent.popleft()
            self._count(counted.parts, counted.offsets or {})

    def _count(self, parts: Sequence[CopiedPart], offsets: Mapping[TopicPartition, Sequence[int]]) -> None:
        # Several partitions of the source may have gone into one of the target, in their order.
        found = {target: iter(each) for target, each in offsets.items()}
        for part in parts:
            self.positions[part.partition] = part.next_offset
            self.behind[part.partition] = part.behind
            for target, each in part.batches.items():
                bases = islice(found[target], len(each))
                runs = [
                    CopiedRun(batch.first_offset, batch.consecutive, base)
                    for batch, base in zip(each, bases, strict=True)
                ]
                if self.notes_runs:
                    self.runs.setdefault(part.partition, []).extend(runs)
                self.records += sum(batch.record_count for batch in each)
                self.copied_bytes += sum(len(batch.data) for batch in each)
                self.batches += len(each)


class Mirror:
    """Copies topics of one cluster into another one until it is cancelled, or to the end.

    `statistics` may be read at any time.
    """

    def __init__(
        self,
        settings: MirrorSettings,
        source: MirrorClient,
        source_admin: MirrorClient,
        target: MirrorClient,
        statistics: MirrorStatistics | None = None,
    ) -> None:
        """Take clients: a fetch waits at the source, so that what is asked meanwhile needs another one."""
        self.statistics = statistics or MirrorStatistics(settings.name, settings.bootstrap)
        self._settings = settings
        self._source, self._source_admin, self._target = source, source_admin, target
        self._instance = secrets.token_hex(8)
        self._has_run = False
        self._reader = LedgerReader(TopicPartition(ledger_topic(settings.name), 0))
        self._producer: TransactionalProducer | None = None
        self._cluster_ids = ("", "")
        self._mirrors: SourceMirrors | None = None
        self._followed = Followed()
        self._copies: dict[TopicPartition, TopicPartition] = {}
        self._fetch_from: dict[TopicPartition, int] = {}
        self._troubles: dict[TopicPartition, _Trouble] = {}
        self._sessions = FetchSessions()
        self._transaction: _Transaction | None = None
        self._stop_at: dict[TopicPartition, int] | None = None

    async def run(self) -> None:
        """Copy until cancelled; an error is noted in the statistics, and it begins again after a while.

        Raises:
            MirrorRefused: it cannot run as it is configured.
        """
        attempts = 0
        try:
            while True:
                started = trio.current_time()
                try:
                    await self._loop()
                except ClientError as error:
                    if trio.current_time() - started > self._settings.retry_backoff_max_s:
                        attempts = 0
                    await self._after_error(error, attempts)
                    attempts += 1
        finally:
            self.statistics.state = STOPPED

    async def run_until_end(self) -> None:
        """Copy what the source has now, and return when it is committed at the target.

        Raises:
            MirrorRefused: it cannot run as it is configured, or a partition cannot be copied.
            ClientError: a cluster does not answer, or refuses.
        """
        try:
            await self._recover()
            await self._follow()
            await self._find_end()
            while not self._is_at_end():
                try:
                    await self._copy_until(trio.current_time() + _UNTIL_END_S)
                except PartitionRefused as error:
                    self._partition_failed(error)
                    await self._recover()
                if self._troubles_of_the_end():
                    raise MirrorRefused("; ".join(self.statistics.problems.values()))
            await self._sync_groups()
        finally:
            self.statistics.state = STOPPED

    def remaining(self) -> int:
        """Return how many offsets are left up to the end; 0 without one."""
        positions = self._reader.ledger.positions
        return sum(
            max(0, end - positions.get(partition, 0)) for partition, end in (self._stop_at or {}).items()
        )

    async def _after_error(self, error: ClientError, attempts: int) -> None:
        self._producer, self._transaction = None, None
        statistics = self.statistics
        if isinstance(error, PartitionRefused):
            self._partition_failed(error)
            return
        statistics.failures += 1
        if statistics.last_error != str(error):
            _log.warning("mirror %s: %s; it is tried again", self._settings.name, error)
        statistics.state, statistics.last_error = FAILED, str(error)
        backoff = self._settings.retry_backoff_s * 2.0 ** min(attempts, 20)
        await trio.sleep(min(backoff, self._settings.retry_backoff_max_s))

    async def _loop(self) -> None:
        settings = self._settings
        if self._producer is None:
            await self._recover()
        while True:
            now = trio.current_time()
            follow_at, groups_at = now + settings.refresh_interval_s, now + settings.group_interval_s
            await self._follow()
            while trio.current_time() < follow_at:
                await self._copy_until(min(follow_at, groups_at))
                if trio.current_time() >= groups_at:
                    await self._sync_groups()
                    groups_at = trio.current_time() + settings.group_interval_s

    async def _recover(self) -> None:
        """Fence whatever had the transactional id, and continue where its last transaction has ended."""
        settings, statistics = self._settings, self.statistics
        statistics.state = CONNECTING
        self._transaction, self._producer = None, None
        source = await self._source_admin.run(describe_cluster)
        target = await self._target.run(describe_cluster)
        self._cluster_ids = (source.cluster_id or "", target.cluster_id or "")
        renaming = settings.renaming
        if source.cluster_id == target.cluster_id and not renaming.prefix and renaming.pattern is None:
            raise MirrorRefused(
                f"source and target are the same cluster ({target.cluster_id}); topics need other names there"
            )
        producer = await self._fencing_producer()
        # Only now, as no transaction of an earlier producer can be committed any more.
        ledger = await self._target.run(self._reader.read)
        self._check_identity(ledger)
        self._producer, self._fetch_from, self._sessions = producer, {}, FetchSessions()
        if not self._has_run:
            await self._commit_records([mirror_record(settings.name, self._cluster_ids[0], self._instance)])
            self._has_run = True
        if producer.producer_id not in ledger.producers:
            # In a transaction before the first with records: who finds those, finds this, too.
            await self._commit_records([producer_record(producer.producer_id, self._cluster_ids[0])])

    async def _fencing_producer(self) -> TransactionalProducer:
        settings = self._settings
        try:
            await self._target.run(
                create_ledger_topic, self._reader.partition.topic, settings.replication_factor
            )
            return await self._target.run(init_transactions, settings.transactional_id)
        except UnsupportedByBroker as error:
            raise MirrorRefused(
                f"the target is too old for a mirror, which needs transactions (Apache Kafka 0.11): {error}"
            ) from error

    def _check_identity(self, ledger: Ledger) -> None:
        name, source = self._settings.name, self._cluster_ids[0]
        if ledger.source and source and ledger.source != source:
            raise MirrorRefused(
                f"the mirror {name!r} has copied from the cluster {ledger.source} until now, and "
                f"{self._settings.bootstrap} is of the cluster {source}; give it another name, or copy again "
                f"without the topic {self._reader.partition.topic} of the target"
            )
        if self._has_run and ledger.instance != self._instance:
            raise MirrorRefused(
                f"another process runs the mirror {name!r} to this target; each needs a name of its own"
            )

    async def _follow(self) -> None:
        """Follow the topics of the source, and decide from where on each partition is copied."""
        settings, ledger = self._settings, self._reader.ledger
        if self._mirrors is None or self._mirrors.target != self._cluster_ids[1]:
            self._mirrors = SourceMirrors(self._cluster_ids[1], settings.include_mirrored)
        await self._source_admin.run(self._mirrors.refresh, set())
        topics = await self._source_admin.run(survey, settings, self._mirrors.copies())
        known = frozenset(ledger.topics)
        followed = await self._target.run(follow_topics, settings, topics, ledger)
        records = list(followed.records)
        for name in followed.begun_again:
            _log.warning(
                "mirror %s: %s is another topic than before; it is copied again", settings.name, name
            )
            records += ledger.forget_topic(name)
        if records:
            await self._commit_records(records)
        new = [
            partition
            for route in followed.routes.values()
            for partition in partitions_of(route)
            if partition not in ledger.positions
        ]
        at_end = {each for each in new if settings.starts_at_end and each.topic not in known}
        starts = await self._starts(new, at_end)
        if starts:
            await self._commit_records([start_record(each, offset) for each, offset in starts.items()])
        self._take_routes(followed)

    async def _starts(
        self, partitions: Sequence[TopicPartition], at_end: set[TopicPartition]
    ) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        timestamps = {each: LATEST_TIMESTAMP if each in at_end else EARLIEST_TIMESTAMP for each in partitions}
        found = await self._source_admin.run(list_offsets, partitions, timestamps)
        return {
            each: outcome.offset for each, outcome in found.items() if not isinstance(outcome, ClientError)
        }

    def _take_routes(self, followed: Followed) -> None:
        statistics, ledger = self.statistics, self._reader.ledger
        self._followed = followed
        problems = {f"topic {name}": problem for name, problem in followed.problems.items()}
        self._copies = {}
        for route in followed.routes.values():
            for partition in partitions_of(route):
                if self._settings.keeps_partitions and partition.partition >= route.target_partitions:
                    problems[str(partition)] = (
                        f"{route.target} of the target has only {route.target_partitions} partitions"
                    )
                elif partition in ledger.positions:
                    self._copies[partition] = TopicPartition(route.target, partition.partition)
        # A partition that was copied again from another position continues there.
        self._fetch_from = {
            each: offset
            for each, offset in self._fetch_from.items()
            if each in self._copies and each.topic not in followed.begun_again
        }
        self._troubles = {each: found for each, found in self._troubles.items() if each in self._copies}
        for each in self._troubles:
            if (problem := statistics.problems.get(str(each))) is not None:
                problems[str(each)] = problem
        for name, problem in problems.items():
            if statistics.problems.get(name) != problem:
                _log.warning("mirror %s: %s: %s", self._settings.name, name, problem)
        statistics.problems = problems
        statistics.topics, statistics.partitions = len(followed.routes), len(self._copies)
        statistics.forget_lags(set(self._copies))
        statistics.state = COPYING

    async def _commit_records(self, records: Sequence[NewRecord]) -> None:
        """Commit records of the ledger in a transaction of their own, and apply them."""
        producer = self._open_producer()
        producer.begin_transaction()
        await self._target.run(commit_with_ledger, producer, self._reader.partition, records)
        for record in records:
            self._reader.ledger.apply(record)

    def _open_producer(self) -> TransactionalProducer:
        if self._producer is None:
            raise AssertionError("`recover` has set it")
        return self._producer

    async def _copy_until(self, due: float) -> None:
        send, receive = trio.open_memory_channel[list[CopiedPart]](1)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._fetch_until, send, due)
                await self._append_all(receive)
        except BaseExceptionGroup as group:
            # Each task is one sequence of operations: the first error is the cause.
            raise _first(group) from group

    async def _fetch_until(self, send: trio.MemorySendChannel[list[CopiedPart]], due: float) -> None:
        async with send:
            while trio.current_time() < due and not self._has_fetched_end():
                offsets = self._offsets_to_fetch()
                if not offsets:
                    await trio.sleep(min(_MAX_WAIT_MS / 1000, max(0.0, due - trio.current_time())))
                    continue
                parts = await self._fetch(offsets)
                if parts:
                    await send.send(parts)

    def _offsets_to_fetch(self) -> dict[TopicPartition, int]:
        now, positions = trio.current_time(), self._reader.ledger.positions
        offsets: dict[TopicPartition, int] = {}
        for partition in self._copies:
            trouble = self._troubles.get(partition)
            if trouble is not None and trouble.retry_at > now:
                continue
            offset = self._fetch_from.setdefault(partition, positions[partition])
            if self._stop_at is None or offset < self._stop_at.get(partition, 0):
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
                self.statistics.note_lag(partition, _end_of(outcome) - outcome.offset)
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
                self._note_trouble(each.partition, str(part))
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
            trouble = self._troubles.get(partition)
            most_bytes = None if trouble is None else trouble.most_bytes
            batches = read.outgoing(without=left_out, most_bytes=most_bytes)
            by_target = {self._copies[partition]: batches} if batches else {}
            return CopiedPart(partition, by_target, read.next_offset, behind)
        route = self._followed.routes[partition.topic]
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
            self._note_trouble(partition, f"the source refuses: {error}")
            return
        found = await self._source_admin.run(list_offsets, [partition], EARLIEST_TIMESTAMP)
        start = found[partition]
        if isinstance(start, ClientError):
            self._note_trouble(partition, f"the source refuses: {start}")
        elif start.offset > offset:
            _log.warning(
                "mirror %s: %s: the source has deleted the offsets %d to %d before they were copied",
                self._settings.name, partition, offset, start.offset - 1,
            )  # fmt: skip
            self.statistics.lost += start.offset - offset
            self._fetch_from[partition] = start.offset
        else:
            self._note_trouble(
                partition,
                f"the source has less than the {offset} offsets that were copied: it was truncated, or the "
                "topic is another one",
            )

    async def _append_all(self, receive: trio.MemoryReceiveChannel[list[CopiedPart]]) -> None:
        """Append what is fetched, and commit in time, until no more is fetched."""
        async with receive, trio.open_nursery() as appends:
            slots = trio.Semaphore(_APPENDS_IN_FLIGHT)
            while True:
                parts: list[CopiedPart] | None = None
                is_end = False
                commit_at = float("inf") if self._transaction is None else self._transaction.commit_at
                with trio.move_on_at(commit_at):
                    try:
                        parts = await receive.receive()
                    except trio.EndOfChannel:
                        is_end = True
                if parts is not None:
                    await self._begin_append(parts, appends, slots)
                transaction = self._transaction
                if is_end or (transaction is not None and trio.current_time() >= transaction.commit_at):
                    await _all_ended(slots)
                    await self._commit()
                if is_end:
                    return

    async def _begin_append(
        self, parts: Sequence[CopiedPart], appends: trio.Nursery, slots: trio.Semaphore
    ) -> None:
        """Send the batches, behind those of the appends before, which need not be acknowledged yet."""
        producer = self._open_producer()
        transaction = self._transaction
        if transaction is None:
            commit_at = trio.current_time() + self._settings.commit_interval_s
            transaction = self._transaction = _Transaction(commit_at, self._settings.keeps_partitions)
            producer.begin_transaction()
        batches: dict[TopicPartition, list[OutgoingBatch]] = {}
        for part in parts:
            for target, each in part.batches.items():
                batches.setdefault(target, []).extend(each)
        if producer.missing_partitions(batches):
            await self._target.run(prepare_append, producer, list(batches))
        await slots.acquire()
        await appends.start(self._append, transaction, transaction.sending(parts), batches, slots)

    async def _append(
        self,
        transaction: _Transaction,
        append: _Append,
        batches: dict[TopicPartition, list[OutgoingBatch]],
        slots: trio.Semaphore,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        offsets: dict[TopicPartition, list[int]] = {}
        if batches:
            offsets = await self._target.run(
                append_in_transaction, self._open_producer(), batches, task_status.started
            )
        else:
            task_status.started()
        transaction.acknowledged(append, offsets)
        slots.release()

    async def _commit(self) -> None:
        transaction = self._transaction
        if transaction is None:
            return
        ledger, statistics = self._reader.ledger, self.statistics
        records: list[NewRecord] = []
        for partition, next_offset in transaction.positions.items():
            records += ledger.copied(partition, next_offset, transaction.runs.get(partition, ()))
        await self._target.run(commit_with_ledger, self._open_producer(), self._reader.partition, records)
        for record in records:
            ledger.apply(record)
        self._transaction = None
        statistics.committed(
            trio.current_time(), transaction.records, transaction.batches, transaction.copied_bytes
        )
        for partition, behind in transaction.behind.items():
            statistics.note_lag(partition, behind)
            if self._troubles.pop(partition, None) is not None:
                statistics.problems.pop(str(partition), None)

    def _partition_failed(self, refused: PartitionRefused) -> None:
        """Continue without the partition for a while; all others are copied again from their last commit."""
        self._producer, self._transaction = None, None
        sources = [source for source, target in self._copies.items() if target == refused.partition]
        if not sources:
            # The ledger, or one that many partitions of the source are hashed to.
            sources = list(self._copies)
        batch = refused.batch
        for source in sources:
            trouble = self._troubles.setdefault(source, _Trouble())
            if refused.is_too_large and batch is not None and batch.record_count > 1:
                trouble.most_bytes = max(1, min(len(batch.data), trouble.most_bytes or len(batch.data)) // 2)
            else:
                self._note_trouble(source, str(refused))

    def _note_trouble(self, partition: TopicPartition, problem: str) -> None:
        trouble = self._troubles.setdefault(partition, _Trouble())
        settings = self._settings
        backoff = settings.retry_backoff_s * 2.0 ** min(trouble.attempts, _MOST_PARTITION_BACKOFFS)
        trouble.retry_at = trio.current_time() + min(backoff, settings.retry_backoff_max_s)
        trouble.attempts += 1
        if self.statistics.problems.get(str(partition)) != problem:
            _log.warning("mirror %s: %s: %s", settings.name, partition, problem)
        self.statistics.problems[str(partition)] = problem

    async def _find_end(self) -> None:
        missing = [
            partition
            for route in self._followed.routes.values()
            for partition in partitions_of(route)
            if partition not in self._copies
        ]
        if missing:
            reason = self.statistics.problems.get(str(missing[0]), "its beginning is not known")
            raise MirrorRefused(f"{missing[0]} cannot be copied: {reason}")
        partitions = list(self._copies)
        found = await self._source_admin.run(list_offsets, partitions, LATEST_TIMESTAMP, read_committed=True)
        if any(isinstance(each, UnsendableRequest) for each in found.values()):
            # Before Apache Kafka 0.11 there are no transactions.
            found = await self._source_admin.run(list_offsets, partitions, LATEST_TIMESTAMP)
        self._stop_at = {each: outcome.offset for each, outcome in or_raise(found).items()}

    def _is_at_end(self) -> bool:
        return self.remaining() == 0

    def _has_fetched_end(self) -> bool:
        return self._stop_at is not None and all(
            self._fetch_from.get(each, 0) >= end
            for each, end in self._stop_at.items()
            if each in self._copies
        )

    def _troubles_of_the_end(self) -> bool:
        return any(trouble.attempts > _MOST_ATTEMPTS for trouble in self._troubles.values())

    async def _sync_groups(self) -> None:
        settings = self._settings
        if not settings.groups.include or not settings.keeps_partitions or self._mirrors is None:
            return
        both_ways = self._mirrors.copied_both_ways()
        copies = {
            source: target
            for source, target in self._copies.items()
            # Such a copy has records that the source lacks: a group would not get them.
            if both_ways.get(target.topic) != source.topic
        }
        groups = await self._source_admin.run(source_groups, settings.groups)
        maps = self._reader.ledger.maps
        wanted = {name: translated(settings.name, each, copies, maps) for name, each in groups.items()}
        synced = await self._target.run(sync_groups, settings.name, wanted)
        self.statistics.groups += synced.committed
        for name, problem in synced.problems.items():
            self.statistics.problems[f"group {name}"] = problem


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


async def _all_ended(slots: trio.Semaphore) -> None:
    """Wait until no append is in flight."""
    for _ in range(_APPENDS_IN_FLIGHT):
        await slots.acquire()
    for _ in range(_APPENDS_IN_FLIGHT):
        slots.release()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the cause: of several appends in flight the first one that was refused."""
    found = list(_flat(group))
    return next((each for each in found if isinstance(each, PartitionRefused)), found[0])


def _flat(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _flat(cast("BaseExceptionGroup[BaseException]", each))
        else:
            yield each
