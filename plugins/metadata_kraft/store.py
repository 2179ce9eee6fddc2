"""The metadata store of a broker: topics, configuration, registration and producer ids, in Kafka's own log.

Every change is one batch, so it is there whole or not at all; it is durable before it is answered, and in the
image only once it is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID, uuid4

import trio

from tidelog.kernel.seams.storage import BrokerRegistration, TopicPartition, TopicRecord
from tidelog.plugins.metadata_kraft.adopted_topics import AdoptedTopics
from tidelog.plugins.metadata_kraft.adoption import tell_of_adoption
from tidelog.plugins.metadata_kraft.batches import MAX_BATCH_BYTES, in_chunks
from tidelog.plugins.metadata_kraft.changes import Change, Changes, DirectoryOf
from tidelog.plugins.metadata_kraft.formatting import FORMAT_LEVELS
from tidelog.plugins.metadata_kraft.framing import frame, unframe
from tidelog.plugins.metadata_kraft.housekeeping import CLOSING_BYTES, SnapshotLimits, Snapshots
from tidelog.plugins.metadata_kraft.image.dump import image_records
from tidelog.plugins.metadata_kraft.image.replay import apply_message, apply_record
from tidelog.plugins.metadata_kraft.image.state import MetadataImage, TopicImage
from tidelog.plugins.metadata_kraft.opening import MetadataPlace, OpenedMetadata, read_bootstrap
from tidelog.plugins.metadata_kraft.quorum_state import write_quorum_state
from tidelog.plugins.metadata_kraft.records import cluster, settings, topics
from tidelog.plugins.metadata_kraft.records.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
)
from tidelog.plugins.metadata_kraft.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

_log = logging.getLogger(__name__)

NO_BROKER_EPOCH = -1
_MIN_INSYNC_REPLICAS = "min.insync.replicas"
# Half of what a batch may have leaves room for what the records' own lengths and offsets take.
_CHUNK_BYTES = MAX_BATCH_BYTES // 2


class KraftMetadata:
    """`MetadataStore` in Kafka's metadata log, which this broker leads alone."""

    def __init__(
        self,
        place: MetadataPlace,
        opened: OpenedMetadata,
        limits: SnapshotLimits,
        adopted: AdoptedTopics,
        directory_of: DirectoryOf,
        now_ms: Callable[[], int],
    ) -> None:
        self._place = place
        self._log = opened.log
        self._replay = opened.replay
        self._epoch_before = opened.epoch
        self._adopted = adopted
        self._directory_of = directory_of
        self._changes = Changes(opened.replay.image, place.node_id, directory_of)
        self._snapshots = Snapshots(
            place.directory, opened.log, opened.replay, opened.snapshots, limits, now_ms
        )
        self._snapshots.bytes_since = opened.bytes_since_snapshot
        self._changing = trio.Lock()
        self.to_adopt: Sequence[TopicRecord] = ()
        self._log_directory_ids = list(place.log_directory_ids)

    @property
    def cluster_id(self) -> str:
        """See `MetadataStore.cluster_id`."""
        return self._place.cluster_id

    @property
    def image(self) -> MetadataImage:
        """What the log adds up to; to look at, not to change."""
        return self._replay.image

    @property
    def broker_epoch(self) -> int:
        """The epoch that this broker is registered with, -1 if it is not."""
        broker = self.image.brokers.get(self._place.node_id)
        return NO_BROKER_EPOCH if broker is None else broker.broker_epoch

    @property
    def deleted_topics(self) -> dict[UUID, str]:
        """Ids and names of topics that were deleted lately, whose directories may be there."""
        return {UUID(bytes=topic_id): name for topic_id, name in self.image.removed_topics.items()}

    def topics(self) -> Sequence[TopicRecord]:
        """See `MetadataStore.topics`."""
        return [self._record(topic) for topic in self.image.topics.values()]

    def _record(self, topic: TopicImage) -> TopicRecord:
        topic_id = UUID(bytes=topic.topic_id)
        config = self.image.configs.get((settings.TOPIC_RESOURCE, topic.name), {})
        epochs = tuple(topic.partitions[index].leader_epoch for index in range(len(topic.partitions)))
        adopted = topic_id in self._adopted
        return TopicRecord(topic.name, topic_id, len(epochs), dict(config), epochs, adopted)

    async def lead(self) -> None:
        """Take the log over: begin a new epoch, finish what was left half done, lead every partition.

        Raises:
            OSError: the disk refused.
        """
        async with self._changing:
            with trio.CancelScope(shield=True):
                await self._lead()

    async def _lead(self) -> None:
        await trio.to_thread.run_sync(self._begin_epoch)
        self._count(self._log.append_control(self._leader_change()))
        self._replay.voters_in_log = True
        values: list[bytes] = []
        if self._replay.transaction is not None:
            values.append(frame(AbortTransactionRecord(reason="Controller failover")))
            self._replay.transaction = None
        if not self.image.metadata_version:
            values += await trio.to_thread.run_sync(self._bootstrap_values)
        await self._write(values)
        for value in values:
            apply_record(self.image, unframe(value))
        await self._commit(self._changes.lead())

    def _begin_epoch(self) -> None:
        epoch = self._epoch_before + 1
        place = self._place
        write_quorum_state(place.directory, place.node_id, epoch, self._replay.kraft_version)
        self._log.begin_epoch(epoch)

    def _leader_change(self) -> list[object]:
        """A new leader's first records; Kafka calls for the voters in the log itself, once."""
        voter = LeaderChangeVoter(voter_id=self._place.node_id)
        messages: list[object] = [
            LeaderChangeMessage(leader_id=self._place.node_id, voters=[voter], granting_voters=[voter])
        ]
        replay = self._replay
        if replay.kraft_version and replay.voters is not None and not replay.voters_in_log:
            messages += [KRaftVersionRecord(kraft_version=replay.kraft_version), replay.voters]
        return messages

    def _bootstrap_values(self) -> list[bytes]:
        """Blocking: the first records of a log, and the topics that were found without one.

        They are a transaction, so that a crash leaves none or all of them.
        """
        bootstrap = read_bootstrap(self._place.root)
        image = MetadataImage(features=dict(FORMAT_LEVELS)) if bootstrap is None else bootstrap.image
        values = [frame(BeginTransactionRecord(name="Bootstrap records")), *image_records(image)]
        if image.has_elr:
            kind = settings.BROKER_RESOURCE
            config = settings.ConfigRecord(
                resource_type=kind, resource_name="", name=_MIN_INSYNC_REPLICAS, value="1"
            )
            values.append(frame(config))
        values += self._adopted_values(image)
        return [*values, frame(EndTransactionRecord())]

    def _adopted_values(self, image: MetadataImage) -> list[bytes]:
        if not self.to_adopt:
            return []
        # The mark comes first: without it a crash could leave topics whose data is deleted by a default.
        self._adopted.add(self.to_adopt)
        tell_of_adoption(self.to_adopt, self._adopted.path)
        adopting = Changes(image, self._place.node_id, self._directory_of)
        changes = (change for record in self.to_adopt for change in adopting.put_topic(record))
        return [frame(message, version) for message, version in changes]

    async def register_broker(self, registration: BrokerRegistration) -> None:
        """See `MetadataStore.register_broker`."""
        async with self._changing:
            directories = self._log_directory_ids
            await self._commit(
                self._changes.register(registration, self._log.end_offset, uuid4().bytes, directories)
            )

    def assigned_directory(self, partition: TopicPartition) -> bytes | None:
        """The id of the log directory that a partition was last said to be in, None if it never was."""
        topic = self.image.find_topic(partition.topic)
        found = None if topic is None else topic.partitions.get(partition.partition)
        return found.directories[0] if found is not None and found.directories else None

    async def assign_directory(self, partition: TopicPartition, directory_id: bytes) -> None:
        """Note that a partition is in another log directory now; durable on return.

        Raises:
            OSError: the disk refused.
        """
        async with self._changing:
            await self._commit(self._changes.assign(partition, directory_id))

    def forget_directory(self, directory_id: bytes) -> None:
        """Register this broker without a log directory that failed before it could be."""
        self._log_directory_ids = [other for other in self._log_directory_ids if other != directory_id]

    async def lose_directory(self, directory_id: bytes, partitions: Sequence[TopicPartition]) -> None:
        """Note that a log directory failed, and that nobody leads its partitions; durable on return.

        Raises:
            OSError: the disk refused.
        """
        async with self._changing:
            self.forget_directory(directory_id)
            await self._commit(
                [
                    *self._changes.keep_directories(self._log_directory_ids, self.broker_epoch),
                    *self._changes.lose(partitions),
                ]
            )

    async def lose_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """Note that nobody leads these partitions, since they were not found; durable on return.

        Raises:
            OSError: the disk refused.
        """
        async with self._changing:
            await self._commit(self._changes.lose(partitions))

    async def put_topic(self, record: TopicRecord) -> None:
        """See `MetadataStore.put_topic`."""
        async with self._changing:
            before = self.image.configs.get((settings.TOPIC_RESOURCE, record.name), {})
            looked_at = before != record.config
            await self._commit(self._changes.put_topic(record))
            if looked_at:
                await self._unmark(record.topic_id)

    async def remove_topic(self, name: str) -> None:
        """See `MetadataStore.remove_topic`."""
        async with self._changing:
            topic = self.image.find_topic(name)
            if topic is not None:
                await self._commit([(topics.RemoveTopicRecord(topic_id=topic.topic_id), 0)])
                await self._unmark(UUID(bytes=topic.topic_id))

    def broker_config(self, node_id: int | None) -> Mapping[str, str]:
        """See `MetadataStore.broker_config`."""
        return self.image.configs.get((settings.BROKER_RESOURCE, _resource_name(node_id)), {})

    async def put_broker_config(self, node_id: int | None, config: Mapping[str, str]) -> None:
        """See `MetadataStore.put_broker_config`."""
        async with self._changing:
            await self._commit(self._changes.put_broker_config(_resource_name(node_id), config))

    async def allocate_producer_ids(self, count: int) -> range:
        """See `MetadataStore.allocate_producer_ids`."""
        async with self._changing:
            first = self.image.next_producer_id
            record = cluster.ProducerIdsRecord(
                broker_id=self._place.node_id,
                broker_epoch=self.broker_epoch,
                next_producer_id=first + count,
            )
            await self._commit([(record, 0)])
            return range(first, first + count)

    async def keep_house(self) -> None:
        """Take a snapshot if one is due, and let go of what is too old."""
        async with self._changing:
            await self._snapshot_if_due()
            await trio.to_thread.run_sync(self._snapshots.clean)

    async def stop(self) -> None:
        """Note a clean stop: this broker leads nothing any more. Everything else has to be on disk."""
        async with self._changing:
            await self._commit(self._changes.leave(self.broker_epoch))
            if self._snapshots.bytes_since >= CLOSING_BYTES:
                await trio.to_thread.run_sync(self._take_snapshot)

    def close(self) -> None:
        """Blocking: make durable and close; also after a failure."""
        self._log.close()

    async def _commit(self, changes: Iterable[Change]) -> None:
        """Write changes, durably, then take them into the image; those that fit a batch are one.

        Not cancelled in between: what is in the log without being in the image would be contradicted by the
        next change.
        """
        made = list(changes)
        with trio.CancelScope(shield=True):
            await self._write([frame(message, version) for message, version in made])
            for message, _ in made:
                apply_message(self.image, message)
            await self._snapshot_if_due()

    async def _write(self, values: Sequence[bytes]) -> None:
        if values:
            for chunk in in_chunks(values, _CHUNK_BYTES):
                self._count(self._log.append(chunk))
            await trio.to_thread.run_sync(self._log.flush)

    async def _unmark(self, topic_id: UUID) -> None:
        """Take an adopted topic's mark away; the change itself is durable, so this must not fail it."""
        try:
            await trio.to_thread.run_sync(self._adopted.discard, topic_id)
        except OSError as error:
            _log.warning("%s cannot be written, a topic stays marked: %s", self._adopted.path, error)

    async def _snapshot_if_due(self) -> None:
        if self._snapshots.is_due():
            await trio.to_thread.run_sync(self._take_snapshot)

    def _take_snapshot(self) -> None:
        """Blocking: the log has everything, so a disk that refuses the snapshot fails nothing else."""
        try:
            self._snapshots.take()
            self._snapshots.clean()
        except OSError as error:
            self._snapshots.postpone()
            _log.warning("no snapshot of %s can be taken: %s", self._place.directory, error)

    def _count(self, appended_bytes: int) -> None:
        self._snapshots.bytes_since += appended_bytes


def _resource_name(node_id: int | None) -> str:
    return "" if node_id is None else str(node_id)
