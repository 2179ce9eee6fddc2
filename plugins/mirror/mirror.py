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
from typing import TYPE_CHECKING, Final, cast

import trio

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.errors import ClientError, UnsendableRequest, UnsupportedByBroker
from tidelog.plugins.client.operations.metadata import describe_cluster
from tidelog.plugins.client.operations.offsets import list_offsets
from tidelog.plugins.client.operations.sending import or_raise
from tidelog.plugins.client.operations.transactions import init_transactions
from tidelog.plugins.mirror.copy_plan import CopyPlan
from tidelog.plugins.mirror.errors import MirrorRefused, PartitionRefused
from tidelog.plugins.mirror.failing_partitions import FailingPartitions
from tidelog.plugins.mirror.following import Followed, follow_topics, partitions_of, survey
from tidelog.plugins.mirror.group_sync import source_groups, sync_groups, translated
from tidelog.plugins.mirror.ledger import (
    NO_EPOCH,
    Ledger,
    ledger_topic,
    mirror_record,
    producer_record,
    start_record,
)
from tidelog.plugins.mirror.ledger_reading import LedgerReader, SourceMirrors, create_ledger_topic
from tidelog.plugins.mirror.source_fetching import CopiedPart, Doubt, SourceFetcher
from tidelog.plugins.mirror.source_truncation import end_of_copied
from tidelog.plugins.mirror.statistics import CONNECTING, COPYING, FAILED, STOPPED, MirrorStatistics
from tidelog.plugins.mirror.target_writer import TargetWriter
from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidelog.plugins.client.batches import NewRecord
    from tidelog.plugins.client.producers import TransactionalProducer
    from tidelog.plugins.mirror.cluster_client import MirrorClient
    from tidelog.plugins.mirror.settings import MirrorSettings

_log: Final = logging.getLogger(__name__)

_UNTIL_END_S: Final = 5.0
"""How often a copy to the end looks whether a partition keeps failing."""


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
        self._source_admin, self._target = source_admin, target
        self._instance = secrets.token_hex(8)
        self._has_run = False
        self._reader = LedgerReader(TopicPartition(ledger_topic(settings.name), 0))
        self._cluster_ids = ("", "")
        self._mirrors: SourceMirrors | None = None
        self._plan = CopyPlan()
        self._failing = FailingPartitions(settings, self.statistics)
        self._fetcher = SourceFetcher(
            settings, source, source_admin, self._reader.ledger, self._failing, self.statistics
        )
        self._writer = TargetWriter(settings, target, self._reader, self._failing, self.statistics)

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
            if self._fetcher.doubtful:
                await self._settle_doubts()
            while self.remaining():
                try:
                    await self._copy_until(trio.current_time() + _UNTIL_END_S)
                except PartitionRefused as error:
                    self._failing.refused(self._plan.sources_of(error.partition), error)
                    await self._recover()
                if self._failing.are_given_up:
                    raise MirrorRefused("; ".join(self.statistics.problems.values()))
            await self._sync_groups()
        finally:
            self.statistics.state = STOPPED

    def remaining(self) -> int:
        """Return how many offsets are left up to the end; 0 without one."""
        positions = self._reader.ledger.positions
        return sum(
            max(0, end - positions.get(partition, 0)) for partition, end in (self._fetcher.ends or {}).items()
        )

    async def _after_error(self, error: ClientError, attempts: int) -> None:
        self._writer.end()
        statistics = self.statistics
        if isinstance(error, PartitionRefused):
            self._failing.refused(self._plan.sources_of(error.partition), error)
            return
        statistics.failures += 1
        if statistics.last_error != str(error):
            _log.warning("mirror %s: %s; it is tried again", self._settings.name, error)
        statistics.state, statistics.last_error = FAILED, str(error)
        backoff = self._settings.retry_backoff_s * 2.0 ** min(attempts, 20)
        await trio.sleep(min(backoff, self._settings.retry_backoff_max_s))

    async def _loop(self) -> None:
        settings = self._settings
        if not self._writer.has_producer:
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
        self._writer.end()
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
        self._writer.begin(producer)
        self._fetcher.restart()
        records: list[NewRecord] = []
        if not self._has_run:
            records.append(mirror_record(settings.name, self._cluster_ids[0], self._instance))
        if producer.producer_id not in ledger.producers:
            # In a transaction before the first with records: who finds those, finds this, too.
            records.append(producer_record(producer.producer_id, self._cluster_ids[0]))
        if records:
            await self._writer.commit_records(records)
        self._has_run = True

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

    async def _follow(self) -> set[str]:
        """Follow the topics of the source, and decide from where on each partition is copied.

        Return those that were begun again.
        """
        settings, ledger = self._settings, self._reader.ledger
        mirrors = self._mirrors
        if mirrors is None or mirrors.target != self._cluster_ids[1]:
            self._mirrors = mirrors = SourceMirrors(self._cluster_ids[1], settings.include_mirrored)
        await self._source_admin.run(mirrors.refresh, set())
        topics = await self._source_admin.run(survey, settings, mirrors.copies())
        followed = await self._target.run(follow_topics, settings, topics, ledger)
        # All in one transaction, and none where nothing has changed.
        records = [*followed.records, *self._forgotten(followed), *await self._starts(followed)]
        if records:
            await self._writer.commit_records(records)
        self._take_plan(followed, mirrors)
        return followed.begun_again

    def _forgotten(self, followed: Followed) -> list[NewRecord]:
        records: list[NewRecord] = []
        for name in followed.begun_again:
            _log.warning(
                "mirror %s: %s is another topic than before; it is copied again", self._settings.name, name
            )
            records += self._reader.ledger.forget_topic(name)
        return records

    async def _starts(self, followed: Followed) -> list[NewRecord]:
        """Return the first positions of partitions that have none, or none any more."""
        ledger = self._reader.ledger
        new = [
            partition
            for name, route in followed.routes.items()
            for partition in partitions_of(route)
            if partition not in ledger.positions or name in followed.begun_again
        ]
        if not new:
            return []
        starts_at_end = self._settings.starts_at_end
        timestamps = {
            each: LATEST_TIMESTAMP
            if starts_at_end and each.topic not in ledger.topics
            else EARLIEST_TIMESTAMP
            for each in new
        }
        found = await self._source_admin.run(list_offsets, new, timestamps)
        return [
            start_record(each, outcome.offset)
            for each, outcome in found.items()
            if not isinstance(outcome, ClientError)
        ]

    def _take_plan(self, followed: Followed, mirrors: SourceMirrors) -> None:
        statistics = self.statistics
        self._plan = plan = CopyPlan.of(
            followed, self._reader.ledger.positions, keeps_partitions=self._settings.keeps_partitions
        )
        self._fetcher.follow(plan, followed.begun_again, mirrors)
        self._failing.keep(plan.copies, dict(plan.problems))
        statistics.topics, statistics.partitions = len(plan.routes), len(plan.copies)
        statistics.forget_lags(set(plan.copies))
        statistics.state = COPYING

    async def _copy_until(self, due: float) -> None:
        send, receive = trio.open_memory_channel[list[CopiedPart]](1)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._fetcher.fetch_until, send, due)
                await self._writer.append_all(receive)
        except BaseExceptionGroup as group:
            # Each task is one sequence of operations: the first error is the cause.
            raise _first(group) from group
        if self._fetcher.doubtful:
            await self._settle_doubts()

    async def _settle_doubts(self) -> None:
        """Continue partitions of which the source may have another log than what was copied."""
        begun_again = await self._follow()
        for partition, doubt in list(self._fetcher.doubtful.items()):
            if partition in self._plan.copies and partition.topic not in begun_again:
                await self._settle_doubt(partition, doubt)
        self._fetcher.doubtful.clear()

    async def _settle_doubt(self, partition: TopicPartition, doubt: Doubt) -> None:
        if doubt is Doubt.TOPIC:
            # The broker that was asked about topics does not know it yet.
            self._failing.failed(partition, doubt.value)
            return
        ledger, name = self._reader.ledger, self._settings.name
        position, epoch = ledger.positions[partition], ledger.epochs[partition]
        end = None if epoch == NO_EPOCH else await self._source_admin.run(end_of_copied, partition, epoch)
        if end is not None and end >= position:
            self._fetcher.continue_at(partition, position)
            if doubt is Doubt.SHORTER:
                self._failing.failed(partition, f"the source does not have the offset {position} just now")
        elif end is not None and self._plan.routes[partition.topic].source.has_id:
            _log.warning(
                "mirror %s: %s: the source was truncated to the offset %d; its records up to %d, which were "
                "copied, stay at the target", name, partition, end, position - 1,
            )  # fmt: skip
            self.statistics.truncated += position - end
            await self._continue_at(partition, end, ledger.truncated(partition, end))
        else:
            found = await self._source_admin.run(list_offsets, [partition], EARLIEST_TIMESTAMP)
            start = or_raise(found)[partition].offset
            _log.warning(
                "mirror %s: %s: the source has less than the %d offsets that were copied: it was truncated, "
                "or its topic was deleted and made again; it is copied again", name, partition, position,
            )  # fmt: skip
            await self._continue_at(partition, start, ledger.begun_again(partition, start))

    async def _continue_at(
        self, partition: TopicPartition, offset: int, records: Sequence[NewRecord]
    ) -> None:
        await self._writer.commit_records(records)
        self._fetcher.continue_at(partition, offset)

    async def _find_end(self) -> None:
        missing = self._plan.missing()
        if missing:
            reason = self.statistics.problems.get(str(missing[0]), "its beginning is not known")
            raise MirrorRefused(f"{missing[0]} cannot be copied: {reason}")
        partitions = list(self._plan.copies)
        found = await self._source_admin.run(list_offsets, partitions, LATEST_TIMESTAMP, read_committed=True)
        if any(isinstance(each, UnsendableRequest) for each in found.values()):
            # Before Apache Kafka 0.11 there are no transactions.
            found = await self._source_admin.run(list_offsets, partitions, LATEST_TIMESTAMP)
        self._fetcher.ends = ends = {each: outcome.offset for each, outcome in or_raise(found).items()}
        positions = self._reader.ledger.positions
        behind = [each for each, end in ends.items() if end < positions[each]]
        if behind:
            # The end of committed records may be lower than where a copy begins that begins at the log's end.
            found = await self._source_admin.run(list_offsets, behind, LATEST_TIMESTAMP)
            cut = [each for each, outcome in or_raise(found).items() if outcome.offset < positions[each]]
            self._fetcher.doubtful = dict.fromkeys(cut, Doubt.SHORTER)

    async def _sync_groups(self) -> None:
        settings = self._settings
        if not settings.groups.include or not settings.keeps_partitions or self._mirrors is None:
            return
        both_ways = self._mirrors.copied_both_ways()
        copies = {
            source: target
            for source, target in self._plan.copies.items()
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
