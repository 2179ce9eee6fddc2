"""All topics of a broker: finding, creating, changing and deleting them."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

import attrs
import trio

from tidelog.kernel import disk
from tidelog.kernel.clock import Clock
from tidelog.kernel.config import (
    Alter,
    Config,
    TopicConfig,
    check_conflicts,
    checked_topic_config,
    keys,
    topic_config,
)
from tidelog.kernel.errors import (
    BrokerError,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    StorageError,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tidelog.kernel.events import BrokerEvents
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.log.memory_budget import Unpacking
from tidelog.kernel.metadata import MetadataDelta, PartitionImage, TopicImage
from tidelog.kernel.pace import Pace, each_in_steps, run_in_steps, run_to_end
from tidelog.kernel.seams.events import PartitionsOpened, TopicConfigChanged, TopicCreated, TopicDeleted
from tidelog.kernel.seams.metadata import MetadataStore
from tidelog.kernel.seams.storage import Storage, TopicPartition
from tidelog.kernel.seams.tasks import Tasks
from tidelog.kernel.seams.topics import NewTopic
from tidelog.kernel.topic_names import METADATA_TOPIC, check_topic_name, metric_name
from tidelog.kernel.topics.auto_creation import AutoCreation
from tidelog.kernel.topics.new_partitions import NewPartitions, create_partitions
from tidelog.kernel.topics.partitions import PartitionKeeper, partition_specs
from tidelog.kernel.topics.topic import Topic

_log = logging.getLogger(__name__)

MAX_PARTITIONS_PER_TOPIC = 10_000
"""Limit of what one request can make the broker create."""


class Topics:
    """All topics of the broker."""

    def __init__(
        self,
        config: Config,
        storage: Storage,
        metadata: MetadataStore,
        clock: Clock,
        tasks: Tasks,
        events: BrokerEvents | None = None,
    ) -> None:
        self._config = config
        self._events = events or BrokerEvents()
        self._storage = storage
        self._metadata = metadata
        self.unpacking = Unpacking(config[keys.DECOMPRESSION_MEMORY_BYTES])
        self._keeper = PartitionKeeper(storage, clock, tasks, self.unpacking)
        self._auto_creation = AutoCreation(self, tasks)
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        # The topics, and those that are being created, by their names in metrics: no two may have the same.
        self._names: dict[str, str] = {}
        self._internal: dict[str, NewTopic] = {}
        self._changing = trio.Lock()
        node_id = config[keys.NODE_ID]
        self._new_partition = PartitionImage(leader=node_id, replicas=(node_id,))
        self._closed_at: Mapping[TopicPartition, int] | None = None
        self.closing = False
        self.version = 0

    def __iter__(self) -> Iterator[Topic]:
        return iter(tuple(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, name: str) -> Topic | None:
        """Return the topic of that name, None without one."""
        return self._by_name.get(name)

    def find_by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with that id (its 16 bytes), None without one."""
        return self._by_id.get(topic_id)

    def get(self, name: str) -> Topic:
        """Return the topic of that name, or raise `UnknownTopicOrPartition`."""
        topic = self._by_name.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
        return topic

    def get_by_id(self, topic_id: bytes) -> Topic:
        """Return the topic with that id (its 16 bytes), or raise `UnknownTopicId`."""
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId(f"no topic has the id {topic_id.hex()}")
        return topic

    def register_internal_topic(self, new: NewTopic) -> None:
        """Declare what an internal topic is to be when it is first needed (`ensure`).

        Settings that no part of this broker reads are stored with it and have no effect.
        """
        self._internal[new.name] = new

    async def load(self, progress: Callable[[int], None] | None = None) -> None:
        """Open every topic in the metadata; `progress` gets the number of opened partitions."""
        records = [*self._metadata.image.topics.values()]
        configs = [self._config_of(record) for record in records]
        specs = [
            spec
            for record, config in zip(records, configs, strict=True)
            for spec in run_to_end(partition_specs(record, config))
        ]
        partitions = await self._keeper.open(specs, progress)
        for partition, led in zip(
            partitions, chain.from_iterable(record.partitions for record in records), strict=True
        ):
            partition.leader_epoch = led.leader_epoch
        await self._keeper.load_state(partitions)
        remaining = iter(partitions)
        for record, config in zip(records, configs, strict=True):
            topic = self._add(record, config, [next(remaining) for _ in record.partitions])
            await self._store_epochs(record, topic)
            self._events.publish(PartitionsOpened(topic, tuple(topic.partitions)))
        await self._storage.quarantine_stray_partitions()
        if self._storage.failed_partitions:
            await self._metadata.fail_partitions(sorted(self._storage.failed_partitions))

    async def _store_epochs(self, record: TopicImage, topic: Topic) -> None:
        """Store leader epochs that were learned from the partitions' logs."""
        led = tuple(
            each._replace(leader_epoch=partition.leader_epoch)
            for each, partition in zip(record.partitions, topic.partitions, strict=True)
        )
        if led != record.partitions:
            try:
                await self._metadata.commit(MetadataDelta.of_topics(attrs.evolve(record, partitions=led)))
            except OSError as error:
                if not disk.is_full(error):
                    raise
                # The partitions' own checkpoints have them for the next start.
                _log.warning("the leader epochs of topic %s are not stored: %s", record.name, error)

    async def create(self, new: NewTopic) -> Topic:
        """Create a topic, durably; cancelling the caller does not interrupt a creation that has begun."""
        (created,) = await self.create_all([new])
        if isinstance(created, BrokerError):
            raise created
        return created

    async def create_all(self, wanted: Sequence[NewTopic]) -> Sequence[Topic | BrokerError]:
        """Create topics, durably, in one change; for each return it, or why it was not created."""
        results: dict[int, Topic | BrokerError] = {}
        making: dict[int, NewPartitions] = {}
        pace = Pace()
        async with self._changing:
            with trio.CancelScope(shield=True):
                for index, new in enumerate(wanted):
                    try:
                        record, config = self.check(new)
                    except BrokerError as error:
                        results[index] = error
                    else:
                        # From here on no other topic of the request may have the name.
                        self._names[metric_name(record.name)] = record.name
                        making[index] = NewPartitions(record, config)
                    await pace.turn()
                if making:
                    await create_partitions(self._keeper, self._metadata, [*making.values()])
                for index, made in making.items():
                    results[index] = self._created(made)
                    await pace.turn()
        return [results[index] for index in range(len(wanted))]

    def _created(self, made: NewPartitions) -> Topic | BrokerError:
        """Put a new topic into service; return it, or why it could not be created."""
        record = made.record
        if made.error is not None:
            del self._names[metric_name(record.name)]
            return StorageError(f"topic {record.name!r} cannot be created: {made.error}")
        topic = self._add(record, made.config, made.partitions)
        _log.info("created topic %s with %d partitions", record.name, len(record.partitions))
        self._events.publish(TopicCreated(topic))
        self._events.publish(PartitionsOpened(topic, tuple(topic.partitions)))
        return topic

    def check(self, new: NewTopic) -> tuple[TopicImage, TopicConfig]:
        """Return what `create` would create, or raise why it would not."""
        check_topic_name(new.name)
        if new.name == METADATA_TOPIC:
            raise InvalidRequest(f"{METADATA_TOPIC} is the broker's own log and no topic")
        other = self._names.get(metric_name(new.name))
        if other == new.name:
            raise TopicAlreadyExists(f"topic {new.name!r} already exists")
        if other is not None:
            raise InvalidTopic(f"topic {new.name!r} collides with {other!r}: '.' and '_' count as the same")
        partitions = self._config[keys.NUM_PARTITIONS] if new.partitions == -1 else new.partitions
        if partitions < 1:
            raise InvalidPartitions(
                f"{partitions} partitions are not between 1 and {MAX_PARTITIONS_PER_TOPIC}"
            )
        if partitions > MAX_PARTITIONS_PER_TOPIC:
            raise InvalidPartitions(
                f"a topic may begin with {MAX_PARTITIONS_PER_TOPIC} partitions at most, not {partitions}"
            )
        if new.replication_factor not in (-1, 1):
            raise InvalidReplicationFactor(
                f"replication factor {new.replication_factor} is not possible with one broker"
            )
        if new is self._internal.get(new.name):
            config, _ = checked_topic_config(self._config, new.config)
        else:
            config = topic_config(self._config, new.config)
            check_conflicts(self._config, config, new.config)
        self._storage.check_topic(config)
        led = (self._new_partition,) * partitions
        return TopicImage(new.name, uuid.uuid4(), led, dict(new.config)), config

    async def ensure(self, name: str) -> Topic:
        """Return the topic of that name; create it if it is missing, as registered or with the defaults."""
        topic = self._by_name.get(name)
        if topic is not None:
            return topic
        try:
            return await self.create(self._internal.get(name) or NewTopic(name))
        except TopicAlreadyExists:
            return self.get(name)

    def request(self, name: str) -> None:
        """Create the topic in the background, as `ensure` does; a failure is logged."""
        self._auto_creation.request(name)

    async def alter_config(self, name: str, alter: Alter, *, validate_only: bool = False) -> None:
        """Change the configuration that is set for a topic, durably; its partitions use it on return."""
        (refused,) = await self.alter_configs([(name, alter)], validate_only=validate_only)
        if refused is not None:
            raise refused

    async def alter_configs(
        self, changes: Sequence[tuple[str, Alter]], *, validate_only: bool = False
    ) -> Sequence[BrokerError | None]:
        """Change the configurations of topics, durably, in one change; for each return why it was refused.

        An adopted topic is an ordinary one afterwards, since its configuration was reviewed.
        """
        results: list[BrokerError | None] = []
        altered: dict[int, tuple[Topic, dict[str, str], TopicConfig]] = {}
        pace = Pace()
        async with self._changing:
            with trio.CancelScope(shield=True):
                for index, (name, alter) in enumerate(changes):
                    try:
                        topic = self.get(name)
                        overrides, config = self._altered(topic, alter)
                    except BrokerError as error:
                        results.append(error)
                    else:
                        results.append(None)
                        if not validate_only and overrides != topic.overrides:
                            altered[index] = topic, overrides, config
                    await pace.turn()
                try:
                    await self._store_configs([*altered.values()])
                except (OSError, StorageError) as error:
                    for index, (topic, _, _) in altered.items():
                        results[index] = StorageError(f"topic {topic.name!r} cannot be changed: {error}")
        return results

    def _altered(self, topic: Topic, alter: Alter) -> tuple[dict[str, str], TopicConfig]:
        """Return what a topic is to set for itself, and its configuration with that."""
        overrides = alter(topic.overrides)
        # Settings that another broker stored and that have no meaning here do not prevent a change.
        changed = {name: text for name, text in overrides.items() if topic.overrides.get(name) != text}
        self._storage.check_topic(topic_config(self._config, changed))
        config, _ = checked_topic_config(self._config, overrides)
        check_conflicts(self._config, config, changed.keys() | topic.overrides.keys() - overrides.keys())
        return overrides, config

    async def _store_configs(self, altered: Sequence[tuple[Topic, dict[str, str], TopicConfig]]) -> None:
        if not altered:
            return
        topics = dict(await run_in_steps(each_in_steps(altered, self._altered_record)))
        await self._metadata.commit(MetadataDelta(topics=topics))
        pace = Pace()
        for topic, overrides, config in altered:
            topic.overrides, topic.adopted = overrides, False
            await run_in_steps(topic.configure(config), pace)
            _log.info("changed the configuration of topic %s", topic.name)
            self._events.publish(TopicConfigChanged(topic))
            await pace.turn()

    def check_growth(self, name: str, count: int) -> Topic:
        """Return the topic, or raise why it cannot have that many partitions."""
        topic = self.get(name)
        if topic.is_internal:
            raise InvalidRequest(
                f"topic {name!r} is internal and keeps its {len(topic.partitions)} partition(s), since their "
                "number decides in which of them state is; it is chosen before the topic is created, with "
                "offsets.topic.num.partitions or transaction.state.log.num.partitions"
            )
        present = len(topic.partitions)
        if count == present:
            raise InvalidPartitions(f"topic {name!r} already has {present} partition(s)")
        if count < present:
            raise InvalidPartitions(
                f"topic {name!r} has {present} partition(s), {count} would not be an increase"
            )
        return topic

    async def grow(self, name: str, count: int) -> None:
        """Add partitions to a topic, durably, until it has `count`."""
        (refused,) = await self.grow_all([(name, count)])
        if refused is not None:
            raise refused

    async def grow_all(self, wanted: Sequence[tuple[str, int]]) -> Sequence[BrokerError | None]:
        """Add partitions to different topics, durably, in one change; for each return why it was refused."""
        results: list[BrokerError | None] = []
        making: dict[int, NewPartitions] = {}
        pace = Pace()
        async with self._changing:
            with trio.CancelScope(shield=True):
                for index, (name, count) in enumerate(wanted):
                    try:
                        topic = self.check_growth(name, count)
                    except BrokerError as error:
                        results.append(error)
                    else:
                        record = self._metadata.image.topics[name]
                        more = (self._new_partition,) * (count - len(record.partitions))
                        record = attrs.evolve(record, partitions=record.partitions + more)
                        making[index] = NewPartitions(record, topic.config, len(topic.partitions))
                        results.append(None)
                    await pace.turn()
                if making:
                    await create_partitions(self._keeper, self._metadata, [*making.values()])
                for index, made in making.items():
                    results[index] = self._grown(made)
                    await pace.turn()
        return results

    def _grown(self, made: NewPartitions) -> BrokerError | None:
        """Put new partitions of a topic into service; return why they could not be created."""
        name = made.record.name
        if made.error is not None:
            return StorageError(f"topic {name!r} gets no more partitions: {made.error}")
        topic = self._by_name[name]
        topic.partitions += made.partitions
        self.version += 1
        _log.info("topic %s has %d partitions now", name, len(topic.partitions))
        self._events.publish(PartitionsOpened(topic, tuple(made.partitions)))
        return None

    async def delete(self, name: str) -> None:
        """Delete a topic and its data, durably."""
        (refused,) = await self.delete_all([name])
        if refused is not None:
            raise refused

    async def delete_all(self, names: Sequence[str]) -> Sequence[BrokerError | None]:
        """Delete topics and their data, durably, in one change; for each return why it was refused."""
        results: list[BrokerError | None] = []
        deleted: dict[int, Topic] = {}
        async with self._changing:
            with trio.CancelScope(shield=True):
                for index, name in enumerate(names):
                    try:
                        deleted[index] = self.get(name)
                    except UnknownTopicOrPartition as error:
                        results.append(error)
                    else:
                        results.append(None)
                topics = [*dict.fromkeys(deleted.values())]
                try:
                    await self._metadata.commit(MetadataDelta(topics={topic.name: None for topic in topics}))
                except (OSError, StorageError) as error:
                    for index, topic in deleted.items():
                        results[index] = StorageError(f"topic {topic.name!r} cannot be deleted: {error}")
                else:
                    await self._remove(topics)
        return results

    async def _remove(self, topics: Sequence[Topic]) -> None:
        """Take topics out of service whose metadata is gone, and delete their partitions."""
        pace = Pace()
        for topic in topics:
            del self._by_name[topic.name], self._by_id[topic.topic_id.bytes]
            self._names.pop(metric_name(topic.name), None)
            self.version += 1
            await pace.turn()
        await self._keeper.discard([*chain.from_iterable(topic.partitions for topic in topics)])
        for topic in topics:
            _log.info("deleted topic %s", topic.name)
            self._events.publish(TopicDeleted(topic))
            await pace.turn()

    async def refresh_configs(self) -> None:
        """Apply the broker's present defaults to every topic."""
        pace = Pace()
        async with self._changing:
            with trio.CancelScope(shield=True):
                for topic in list(self):
                    config, _ = checked_topic_config(self._config, topic.overrides)
                    if config != topic.config:
                        await run_in_steps(topic.configure(config), pace)
                        self._events.publish(TopicConfigChanged(topic))
                    await pace.turn()

    def partitions(self) -> Iterator[UnifiedLog]:
        """Iterate over every partition of every topic."""
        for topic in self:
            yield from topic.partitions

    def high_watermarks(self) -> Mapping[TopicPartition, int]:
        """Return the high watermark of each partition, after `close` as it was then.

        Before that they are looked up one by one, as they are at that moment; any thread may do it.
        """
        return _HighWatermarks(self) if self._closed_at is None else self._closed_at

    def high_watermark(self, name: TopicPartition) -> int | None:
        """Return the high watermark of a partition, after `close` as it was then; None without one."""
        partition = self.find_partition(name)
        if partition is not None:
            return partition.high_watermark
        # Looked at last: what a thread no longer finds since `close` is in it.
        return None if self._closed_at is None else self._closed_at.get(name)

    def find_partition(self, name: TopicPartition) -> UnifiedLog | None:
        """Return the partition of that name, None without one."""
        topic = self._by_name.get(name.topic)
        if topic is None or name.partition >= len(topic.partitions):
            return None
        return topic.partitions[name.partition]

    def take_offline(self, partitions: Sequence[TopicPartition], reason: str) -> Sequence[UnifiedLog]:
        """Take partitions whose log directory failed out of service until a restart; return those."""
        offline = [found for name in partitions if (found := self.find_partition(name)) is not None]
        for partition in offline:
            partition.take_offline(StorageError(f"{partition.topic_partition} is offline: {reason}"))
        return offline

    def wake_all_waiters(self) -> None:
        """Answer every long poll now, and later ones at once: the broker stops."""
        self.closing = True
        for partition in self.partitions():
            partition.abandon_waiters()

    async def close(self) -> None:
        """Close all partitions; the state of those that the disk does not refuse is on it afterwards."""
        partitions = list(self.partitions())
        self._closed_at = dict(self.high_watermarks())
        self._by_name.clear()
        self._by_id.clear()
        self._names.clear()
        await self._keeper.close(partitions)

    def _add(self, record: TopicImage, config: TopicConfig, partitions: list[UnifiedLog]) -> Topic:
        topic = Topic(record.name, record.topic_id, record.config, config, partitions, record.adopted)
        self._by_name[topic.name] = self._by_id[topic.topic_id.bytes] = topic
        self._names[metric_name(topic.name)] = topic.name
        self.version += 1
        return topic

    def _altered_record(self, altered: tuple[Topic, dict[str, str], TopicConfig]) -> tuple[str, TopicImage]:
        topic, overrides, _ = altered
        record = self._metadata.image.topics[topic.name]
        return topic.name, attrs.evolve(record, config=overrides, adopted=False)

    def _config_of(self, record: TopicImage) -> TopicConfig:
        """Return a stored topic's configuration; settings that this broker does not know are logged."""
        config, problems = checked_topic_config(self._config, record.config)
        for problem in problems:
            _log.warning("topic %s: %s", record.name, problem)
        return config


class _HighWatermarks(Mapping[TopicPartition, int]):
    """Those of all partitions that exist."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def __getitem__(self, name: TopicPartition) -> int:
        found = self._topics.high_watermark(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[TopicPartition]:
        return (each.topic_partition for each in self._topics.partitions())

    def __len__(self) -> int:
        return sum(len(topic.partitions) for topic in self._topics)
