"""The metadata store `kraft`: topics, configuration, registration and producer ids in Kafka's own log.

Every change is one batch, so it is there whole or not at all; it is durable before it is answered, and in the
image only once it is durable.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from uuid import UUID, uuid4

import attrs
import trio

from tidelog.kernel import disk
from tidelog.kernel.errors import ConfigError, StorageError
from tidelog.kernel.metadata import MetadataDelta, MetadataImage, TopicImage
from tidelog.kernel.seams.features import SupportedLevels
from tidelog.kernel.seams.metadata import (
    BrokerRegistration,
    MetadataContext,
    MetadataQuorum,
)
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.seams.storage.directories import NO_BROKER_EPOCH, DataDirectories
from tidelog.kernel.seams.tasks import PeriodicTask
from tidelog.plugins.metadata_kraft import keys
from tidelog.plugins.metadata_kraft.activation import bootstrap_values, leader_change
from tidelog.plugins.metadata_kraft.adoption import AdoptedTopics, adopted_records, log_adoption
from tidelog.plugins.metadata_kraft.changes import KRAFT_VERSION, Changes
from tidelog.plugins.metadata_kraft.commits import Commits
from tidelog.plugins.metadata_kraft.delivery import ImageDelivery
from tidelog.plugins.metadata_kraft.directory import choose_directory, has_metadata_log
from tidelog.plugins.metadata_kraft.encoding import frame, unframe
from tidelog.plugins.metadata_kraft.feature_levels import WRITABLE_LEVELS, check_levels
from tidelog.plugins.metadata_kraft.formatting import sole_voter
from tidelog.plugins.metadata_kraft.housekeeping import CLOSING_BYTES, SnapshotLimits, Snapshots
from tidelog.plugins.metadata_kraft.image import RecordImage
from tidelog.plugins.metadata_kraft.opening import MetadataLocation, open_metadata
from tidelog.plugins.metadata_kraft.quorum_state import write_quorum_state
from tidelog.plugins.metadata_kraft.reading import MetadataReplay
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

    supported_features: Mapping[str, SupportedLevels] = WRITABLE_LEVELS

    def __init__(self, context: MetadataContext) -> None:
        self._context = context
        self._to_adopt: Sequence[TopicImage] = ()
        self._opened: Commits | None = None
        self._location: MetadataLocation
        self._directories: DataDirectories
        self._replay = MetadataReplay()
        self._adopted: AdoptedTopics
        self._changes: Changes
        self.image = MetadataImage()
        self._delivery: ImageDelivery
        self._configured: Collection[UUID] = ()
        self._epoch_before: int

    @property
    def records(self) -> RecordImage:
        """What the records of the log say, which the caller must not change."""
        return self._replay.image

    @property
    def broker_epoch(self) -> int:
        """The epoch that this broker is registered with, -1 if it is not."""
        broker = self.records.brokers.get(self._context.node_id)
        return NO_BROKER_EPOCH if broker is None else broker.broker_epoch

    @property
    def deleted_topics(self) -> Mapping[UUID, str]:
        """Ids and names of topics that were deleted since the last snapshot."""
        return {UUID(bytes=topic_id): name for topic_id, name in self.records.removed_topics.items()}

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
        # Before the log, which an error of this file would leave open.
        adopted = AdoptedTopics(location.root)
        opened = open_metadata(location, directories, context.config, context.now_ms)
        self._location, self._directories, self._adopted = location, directories, adopted
        self._replay, self._epoch_before = opened.replay, opened.epoch
        self._changes = Changes(opened.replay.image, context.node_id, self._directory_of)
        limits = SnapshotLimits.of(context.config)
        snapshots = Snapshots(
            location.directory, opened.log, opened.replay, opened.snapshots, limits, context.now_ms
        )
        snapshots.bytes_since = opened.bytes_since_snapshot
        self._delivery = ImageDelivery(opened.replay.image, context.node_id, self._is_adopted)
        self._opened = Commits(opened.log, opened.replay.image, snapshots, self._committed)
        if not self.records.metadata_version:
            # Nothing was ever written to this log.
            self._to_adopt = adopted_records(directories.in_service)
        self._read_image()

    def _read_image(self) -> None:
        """Take the image from the records as a whole."""
        self.image = self._with_levels(self._delivery.image(self._location.cluster_id, self._to_adopt))

    def _is_adopted(self, topic_id: UUID) -> bool:
        return topic_id in self._adopted and topic_id not in self._configured

    async def _committed(self, messages: Sequence[object]) -> None:
        delta = await self._delivery.delta(messages)
        self.image = self._with_levels(delta.apply(self.image))
        self._context.deliver(delta)

    def _with_levels(self, image: MetadataImage) -> MetadataImage:
        """Add `kraft.version`, which is in control records, and the epoch: the last offset, as in Kafka."""
        levels = {**image.features, KRAFT_VERSION: self._replay.kraft_version}
        return attrs.evolve(
            image, features=levels, features_epoch=max(self._commits.log.high_watermark - 1, 0)
        )

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
        # What a full disk refuses is owed, and written in this order before any other change.
        for step in (self._begin_leading, self._bootstrap, self._lead_partitions):
            await self._commits.now_or_with_room(step)
        if self._commits.owed and not self.records.metadata_version:
            raise disk.full_error(f"there is no room for a new metadata log in {self._location.root}")
        self._read_image()
        if self._commits.owed:
            # What the log has no room for yet is decided: partitions are served meanwhile.
            self.image = self._delivery.led(self.image)

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
        if not self.records.metadata_version:
            values += await trio.to_thread.run_sync(self._bootstrap_values)
        await self._commits.write(values)
        self._replay.transaction = None
        for value in values:
            apply_record(self.records, unframe(value))
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

    async def commit(self, delta: MetadataDelta) -> None:
        """Make a change in one batch; durable on return."""
        async with self._commits.alone():
            if KRAFT_VERSION in delta.features:
                await self._put_voters_in_log(delta.features[KRAFT_VERSION])
            # What the commit delivers shows these topics without their mark, which is removed only after it:
            # a crash in between leaves a mark too many, by which no data is lost.
            self._configured = [*self._configured_by(delta)]
            try:
                await self._commits.commit(self._changes.of_delta(delta, self.broker_epoch))
                await self._unmark(self._configured)
            finally:
                self._configured = ()

    def _configured_by(self, delta: MetadataDelta) -> Iterator[UUID]:
        """Return the topics that are no longer marked as adopted: configured, replaced or deleted ones."""
        for name, after in delta.topics.items():
            before = self.image.topics.get(name)
            if before is not None and (
                after is None or after.topic_id != before.topic_id or after.config != before.config
            ):
                yield before.topic_id

    def check_levels(self, levels: Mapping[str, int]) -> None:
        """Check changes of levels by the rules of each feature."""
        check_levels(self.records, self._replay.kraft_version, levels)

    @property
    def quorum(self) -> MetadataQuorum:
        """Return the state of the log, which this node leads alone."""
        log, node_id = self._commits.log, self._context.node_id
        voters = self._replay.quorum_voters(node_id)
        return MetadataQuorum(node_id, log.epoch, log.end_offset, log.high_watermark, voters)

    async def _put_voters_in_log(self, kraft_version: int) -> None:
        """Raise `kraft.version`: the log has the voters from then on, in a control batch (KIP-853)."""
        location, replay = self._location, self._replay
        voters = VotersRecord(voters=[sole_voter(location.node_id, location.directory_id)])
        with trio.CancelScope(shield=True):
            self._commits.append_control([KRaftVersionRecord(kraft_version=kraft_version), voters])
            await trio.to_thread.run_sync(self._commits.log.flush)
        # Only now: until they are durable, a snapshot must not have them.
        replay.kraft_version, replay.voters, replay.voters_in_log = kraft_version, voters, True

    async def register_broker(self, registration: BrokerRegistration) -> None:
        """Register this broker with its endpoints; durable on return, unless the disk is full."""
        # Not when it is written, which may be at the stop: then no directory is in service.
        directories = self._log_directory_ids()

        async def register() -> None:
            # Looked at when it is written: what is owed comes before it.
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
