"""The metadata store `kraft`: topics, configuration, registration and producer ids in Kafka's own log.

Every change is one batch, so it is there whole or not at all; it is durable before it is answered, and in the
image only once it is durable.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from uuid import UUID, uuid4

import trio

from tidelog.kernel import disk
from tidelog.kernel.errors import ConfigError, StorageError
from tidelog.kernel.seams.client_quotas import QuotaChange, QuotaEntity
from tidelog.kernel.seams.metadata import (
    BrokerRegistration,
    MetadataContext,
    MetadataQuorum,
    TopicRecord,
)
from tidelog.kernel.seams.resource_configs import ResourceScope
from tidelog.kernel.seams.scram import CredentialKey, ScramCredential
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.seams.storage.directories import NO_BROKER_EPOCH, DataDirectories
from tidelog.kernel.seams.tasks import PeriodicTask
from tidelog.plugins.metadata_kraft import keys
from tidelog.plugins.metadata_kraft.activation import bootstrap_values, leader_change
from tidelog.plugins.metadata_kraft.adoption import AdoptedTopics, adopted_records, log_adoption
from tidelog.plugins.metadata_kraft.changes import Changes
from tidelog.plugins.metadata_kraft.commits import Commits
from tidelog.plugins.metadata_kraft.directory import choose_directory, has_metadata_log
from tidelog.plugins.metadata_kraft.encoding import frame, unframe
from tidelog.plugins.metadata_kraft.feature_levels import KRAFT_VERSION, LoggedLevels, level_changes
from tidelog.plugins.metadata_kraft.formatting import sole_voter
from tidelog.plugins.metadata_kraft.housekeeping import CLOSING_BYTES, SnapshotLimits, Snapshots
from tidelog.plugins.metadata_kraft.image import MetadataImage, TopicImage
from tidelog.plugins.metadata_kraft.opening import MetadataLocation, open_metadata
from tidelog.plugins.metadata_kraft.quorum_state import write_quorum_state
from tidelog.plugins.metadata_kraft.reading import MetadataReplay
from tidelog.plugins.metadata_kraft.records import cluster, settings, topics
from tidelog.plugins.metadata_kraft.records.control import (
    AbortTransactionRecord,
    KRaftVersionRecord,
    VotersRecord,
)
from tidelog.plugins.metadata_kraft.replay import apply_record

_log = logging.getLogger(__name__)

MAINTENANCE_INTERVAL_MS = 60_000
"""Interval of the checks whether a snapshot is due or part of the log is too old."""
ROOM_INTERVAL_MS = 2_000
"""Interval of the attempts to write what the start owes, while the disk is full."""


class KraftMetadata:
    """`MetadataStore` in Kafka's metadata log, which this broker leads alone."""

    def __init__(self, context: MetadataContext) -> None:
        self._context = context
        self._to_adopt: Sequence[TopicRecord] = ()
        self._opened: Commits | None = None
        self._location: MetadataLocation
        self._directories: DataDirectories
        self._replay = MetadataReplay()
        self._adopted: AdoptedTopics
        self._changes: Changes
        self.features: LoggedLevels
        self._epoch_before: int

    @property
    def cluster_id(self) -> str:
        """Return the cluster id."""
        return self._location.cluster_id

    @property
    def image(self) -> MetadataImage:
        """Return the image, which the caller must not change."""
        return self._replay.image

    @property
    def broker_epoch(self) -> int:
        """The epoch that this broker is registered with, -1 if it is not."""
        broker = self.image.brokers.get(self._context.node_id)
        return NO_BROKER_EPOCH if broker is None else broker.broker_epoch

    @property
    def deleted_topics(self) -> Mapping[UUID, str]:
        """Ids and names of topics that were deleted since the last snapshot."""
        return {UUID(bytes=topic_id): name for topic_id, name in self.image.removed_topics.items()}

    def is_stored_in(self, directory: Path) -> bool:
        """Return whether a log directory has a metadata log, or a part of one."""
        return has_metadata_log(directory)

    def choose_directory(
        self, candidates: Sequence[Path], stored_in: Sequence[Path], offline: Mapping[Path, str]
    ) -> Path | None:
        """Return the log directory for the metadata log."""
        wanted = self._context.config[keys.METADATA_LOG_DIR]
        return choose_directory(wanted, candidates, stored_in, offline)

    def open(self, directories: DataDirectories | None) -> None:
        """Blocking: open the metadata log and read it into an image; a new log is formatted."""
        context = self._context
        if directories is None or directories.metadata_directory is None:
            raise ConfigError(
                "metadata = kraft needs a storage with log directories, such as storage = file; set metadata "
                "to another store"
            )
        root = directories.metadata_directory
        location = MetadataLocation(root.path, context.node_id, root.id_bytes, directories.cluster_id)
        adopted = AdoptedTopics(location.root)
        opened = open_metadata(location, directories, context.config, context.now_ms)
        self._location, self._directories, self._adopted = location, directories, adopted
        self._replay, self._epoch_before = opened.replay, opened.epoch
        self._changes = Changes(opened.replay.image, context.node_id, self._directory_of)
        self.features = LoggedLevels(opened.replay, opened.log, self._change_levels)
        limits = SnapshotLimits.of(context.config)
        snapshots = Snapshots(
            location.directory, opened.log, opened.replay, opened.snapshots, limits, context.now_ms
        )
        snapshots.bytes_since = opened.bytes_since_snapshot
        self._opened = Commits(opened.log, opened.replay.image, snapshots)
        if not self.image.metadata_version:
            # Nothing was ever written to this log.
            self._to_adopt = adopted_records(directories.in_service)

    def _directory_of(self, partition: TopicPartition) -> bytes | None:
        directories = self._directories
        if len(directories.in_service) == 1 and not directories.offline:
            return directories.in_service[0].id_bytes
        for directory in directories.in_service:
            if partition in directory.folders:
                return directory.id_bytes
        return None

    async def activate(self) -> None:
        """Take the log over: begin a new epoch, finish what was left half done, lead every partition.

        Raises:
            OSError: the disk refused, and for more than want of room; or the log is new, and there is none.
        """
        for step in (self._begin_leading, self._bootstrap, self._lead_partitions):
            await self._commits.now_or_with_room(step)
        if self._commits.owed and not self.image.metadata_version:
            raise disk.full_error(f"there is no room for a new metadata log in {self._location.root}")

    def background_tasks(self) -> Sequence[PeriodicTask]:
        """See `MetadataStore.background_tasks`."""
        interval_ms = MAINTENANCE_INTERVAL_MS
        return (
            PeriodicTask("metadata snapshots", self.maintain, interval_ms, interval_ms),
            PeriodicTask("metadata log without room", self._pay, ROOM_INTERVAL_MS, ROOM_INTERVAL_MS),
        )

    async def maintain(self) -> None:
        """Take a snapshot if one is due, and remove what is too old.

        Raises:
            OSError: the disk refused; what is left is removed at the next call.
        """
        if self._opened is not None:
            await self._opened.maintain()

    async def _pay(self) -> None:
        """Take the steps of the start that a full disk refused, if there is room now."""
        # Tasks run until the broker has stopped, after the log is closed.
        if self._opened is not None:
            await self._opened.pay()

    async def _begin_leading(self) -> None:
        await trio.to_thread.run_sync(self._begin_epoch)
        self._commits.append_control(leader_change(self._context.node_id, self._replay))
        self._replay.voters_in_log = True

    async def _bootstrap(self) -> None:
        values: list[bytes] = []
        if self._replay.transaction is not None:
            values.append(frame(AbortTransactionRecord(reason="Controller failover")))
        if not self.image.metadata_version:
            values += await trio.to_thread.run_sync(self._bootstrap_values)
        await self._commits.write(values)
        self._replay.transaction = None
        for value in values:
            apply_record(self.image, unframe(value))
        self._to_adopt = ()

    async def _lead_partitions(self) -> None:
        await self._commits.commit(self._changes.lead())

    def _begin_epoch(self) -> None:
        epoch = self._epoch_before + 1
        location = self._location
        write_quorum_state(location.directory, location.node_id, epoch, self._replay.kraft_version)
        self._commits.log.begin_epoch(epoch)

    def _bootstrap_values(self) -> list[bytes]:
        """Blocking: return the first records of a log, with the topics that were found without one."""
        image = self._replay.bootstrap
        if self._to_adopt:
            # The mark comes first: without it a crash could leave topics whose data is deleted by a default.
            self._adopted.add(self._to_adopt)
            log_adoption(self._to_adopt, self._adopted.path)
        adopting = Changes(image, self._context.node_id, self._directory_of)
        adopted = (change for record in self._to_adopt for change in adopting.put_topic(record))
        return bootstrap_values(image, adopted)

    async def close(self, *, clean: bool) -> None:
        """Close the log; with `clean`, write before that this broker leads nothing any more."""
        if self._opened is None:
            return
        log = self._opened.log
        try:
            if clean:
                await self._leave()
        except (OSError, StorageError):
            # The log is closed all the same; a second error would have the first one's cause.
            with contextlib.suppress(OSError):
                await trio.to_thread.run_sync(log.close)
            raise
        finally:
            self._opened = None
        await trio.to_thread.run_sync(log.close)

    async def _leave(self) -> None:
        async with self._commits.alone():
            await self._commits.commit(self._changes.leave(self.broker_epoch))
            await self._commits.take_snapshot(above_bytes=CLOSING_BYTES)

    @property
    def _commits(self) -> Commits:
        if self._opened is None:
            raise RuntimeError("the metadata store is not open")
        return self._opened

    def assigned_directory(self, partition: TopicPartition) -> bytes | None:
        """Return the id of the log directory that a partition was last assigned to, None without one."""
        topic = self.image.find_topic(partition.topic)
        found = None if topic is None else topic.partitions.get(partition.partition)
        return found.directories[0] if found is not None and found.directories else None

    async def assign_directory(self, partition: TopicPartition, directory_id: bytes) -> None:
        """Record that a partition is in another log directory now; durable on return.

        Raises:
            OSError: the disk refused.
        """
        async with self._commits.alone():
            await self._commits.commit(self._changes.assign(partition, directory_id))

    def _log_directory_ids(self) -> list[bytes]:
        return [directory.id_bytes for directory in self._directories.in_service]

    async def fail_directory(self, directory_id: bytes, partitions: Sequence[TopicPartition]) -> None:
        """Record that a log directory failed and its partitions have no leader; durable on return.

        Raises:
            OSError: the disk refused.
        """
        left = [other for other in self._log_directory_ids() if other != directory_id]
        async with self._commits.alone():
            await self._commits.commit(
                [
                    *self._changes.keep_directories(left, self.broker_epoch),
                    *self._changes.lead_no_longer(partitions),
                ]
            )

    async def fail_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """Record that partitions, which were not found, have no leader; durable unless the disk is full.

        Raises:
            OSError: the disk refused for another reason.
        """
        await self._commits.now_or_with_room(
            lambda: self._commits.commit(self._changes.lead_no_longer(partitions))
        )

    def topics(self) -> Sequence[TopicRecord]:
        """Return all topics."""
        return [*(self._record(topic) for topic in self.image.topics.values()), *self._to_adopt]

    def _record(self, topic: TopicImage) -> TopicRecord:
        topic_id = UUID(bytes=topic.topic_id)
        config = self.image.configs.get((settings.TOPIC_RESOURCE, topic.name), {})
        epochs = tuple(topic.partitions[index].leader_epoch for index in range(len(topic.partitions)))
        adopted = topic_id in self._adopted
        return TopicRecord(topic.name, topic_id, len(epochs), dict(config), epochs, adopted)

    async def put_topics(self, *records: TopicRecord) -> None:
        """Create or change topics; durable on return."""
        async with self._commits.alone():
            configs = self.image.configs
            configured = [
                record.topic_id
                for record in records
                if configs.get((settings.TOPIC_RESOURCE, record.name), {}) != record.config
            ]
            await self._commits.commit(chain.from_iterable(map(self._changes.put_topic, records)))
            await self._unmark(configured)

    async def remove_topics(self, *names: str) -> None:
        """Remove topics; durable on return."""
        async with self._commits.alone():
            found = [topic for topic in map(self.image.find_topic, names) if topic is not None]
            await self._commits.commit(
                (topics.RemoveTopicRecord(topic_id=topic.topic_id), 0) for topic in found
            )
            await self._unmark([UUID(bytes=topic.topic_id) for topic in found])

    def broker_config(self, node_id: int | None) -> Mapping[str, str]:
        """Return the dynamic configuration of a broker, or the default of all (None)."""
        return self.image.configs.get((settings.BROKER_RESOURCE, _resource_name(node_id)), {})

    async def put_broker_config(self, node_id: int | None, config: Mapping[str, str]) -> None:
        """Replace the dynamic configuration of a broker, or the default of all; durable on return."""
        async with self._commits.alone():
            resource = (settings.BROKER_RESOURCE, _resource_name(node_id))
            await self._commits.commit(self._changes.put_config(resource, config))

    def configured_resources(self, scope: ResourceScope) -> Sequence[str]:
        """Return the names of the resources that have a configuration."""
        wanted = settings.RESOURCE_TYPES[scope]
        return [name for kind, name in self.image.configs if kind == wanted]

    def resource_config(self, scope: ResourceScope, name: str) -> Mapping[str, str]:
        """Return the configuration of a resource."""
        return self.image.configs.get((settings.RESOURCE_TYPES[scope], name), {})

    async def put_resource_configs(
        self, scope: ResourceScope, configs: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Replace the configurations of resources; durable on return."""
        kind = settings.RESOURCE_TYPES[scope]
        async with self._commits.alone():
            changes = (self._changes.put_config((kind, name), config) for name, config in configs.items())
            await self._commits.commit(chain.from_iterable(changes))

    def client_quotas(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """Return the quotas of each entity."""
        return self.image.quotas

    async def alter_client_quotas(self, changes: Sequence[QuotaChange]) -> None:
        """Set and remove quotas; durable on return."""
        async with self._commits.alone():
            await self._commits.commit(self._changes.alter_client_quotas(changes))

    def scram_credentials(self) -> Mapping[CredentialKey, ScramCredential]:
        """Return the credentials of all users."""
        return self.image.credentials

    async def alter_scram_credentials(self, changes: Mapping[CredentialKey, ScramCredential | None]) -> None:
        """Set and delete credentials; durable on return."""
        async with self._commits.alone():
            await self._commits.commit(self._changes.alter_scram_credentials(changes))

    async def allocate_producer_ids(self, count: int) -> range:
        """Return producer ids that were never returned before; durable on return."""
        async with self._commits.alone():
            first = self.image.next_producer_id
            record = cluster.ProducerIdsRecord(
                broker_id=self._context.node_id,
                broker_epoch=self.broker_epoch,
                next_producer_id=first + count,
            )
            await self._commits.commit([(record, 0)])
            return range(first, first + count)

    @property
    def quorum(self) -> MetadataQuorum:
        """Return the state of the log, which this node leads alone."""
        log, node_id = self._commits.log, self._context.node_id
        voters = self._replay.quorum_voters(node_id)
        return MetadataQuorum(node_id, log.epoch, log.end_offset, log.high_watermark, voters)

    async def _change_levels(self, levels: Mapping[str, int]) -> None:
        async with self._commits.alone():
            if KRAFT_VERSION in levels:
                await self._put_voters_in_log(levels[KRAFT_VERSION])
            await self._commits.commit(level_changes(self.image, levels))

    async def _put_voters_in_log(self, kraft_version: int) -> None:
        """Raise `kraft.version`: the log has the voters from then on, in a control batch (KIP-853)."""
        location, replay = self._location, self._replay
        voters = VotersRecord(voters=[sole_voter(location.node_id, location.directory_id)])
        with trio.CancelScope(shield=True):
            self._commits.append_control([KRaftVersionRecord(kraft_version=kraft_version), voters])
            await trio.to_thread.run_sync(self._commits.log.flush)
        replay.kraft_version, replay.voters, replay.voters_in_log = kraft_version, voters, True

    async def register_broker(self, registration: BrokerRegistration) -> None:
        """Register this broker with its endpoints; durable on return, unless the disk is full."""
        # Not when it is written, which may be at the stop: then no directory is in service.
        directories = self._log_directory_ids()

        async def register() -> None:
            offset = self._commits.log.end_offset
            await self._commits.commit(
                self._changes.register(registration, offset, uuid4().bytes, directories)
            )

        await self._commits.now_or_with_room(register)

    async def _unmark(self, topic_ids: Sequence[UUID]) -> None:
        """Remove marks of adopted topics; the change itself is durable, so an error must not fail it."""
        marked = [topic_id for topic_id in topic_ids if topic_id in self._adopted]
        if not marked:
            return
        try:
            await trio.to_thread.run_sync(self._adopted.discard, marked)
        except OSError as error:
            _log.warning("%s cannot be written, topics stay marked: %s", self._adopted.path, error)


def _resource_name(node_id: int | None) -> str:
    return "" if node_id is None else str(node_id)
