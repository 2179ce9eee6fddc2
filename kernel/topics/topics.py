"""All topics of a broker: finding them, and following the image that has them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import attrs

from tidelog.kernel import disk
from tidelog.kernel.config import Alter, Config, TopicConfig, checked_topic_config
from tidelog.kernel.errors import (
    BrokerError,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tidelog.kernel.events import BrokerEvents
from tidelog.kernel.metadata import ImageChange, MetadataDelta, TopicImage
from tidelog.kernel.pace import Pace, run_in_steps, run_to_end
from tidelog.kernel.replica import Partition, ReplicaManager
from tidelog.kernel.seams.controller import Controller, NewPartitions, TopicSpec
from tidelog.kernel.seams.events import PartitionsOpened, TopicConfigChanged, TopicCreated, TopicDeleted
from tidelog.kernel.seams.storage import Storage
from tidelog.kernel.seams.tasks import Tasks
from tidelog.kernel.topics.auto_creation import AutoCreation
from tidelog.kernel.topics.reservations import Reservations
from tidelog.kernel.topics.topic import Topic, partition_specs

if TYPE_CHECKING:
    from tidelog.kernel.seams.metadata import MetadataStore

_log = logging.getLogger(__name__)


class Topics:
    """All topics of the broker, none until they are loaded.

    Attributes:
        version: a number that grows when a topic is created or deleted or gets partitions
        closing: whether the broker stops; no request may wait for records any more
        unpacking: memory and threads for decompressing records
    """

    def __init__(
        self,
        config: Config,
        storage: Storage,
        replicas: ReplicaManager,
        reservations: Reservations,
        metadata: MetadataStore,
        controller: Controller,
        tasks: Tasks,
        events: BrokerEvents | None = None,
    ) -> None:
        self._config = config
        self._events = events or BrokerEvents()
        self._storage = storage
        self._metadata = metadata
        self._controller = controller
        self._replicas = replicas
        self._reservations = reservations
        self.unpacking = replicas.unpacking
        self._auto_creation = AutoCreation(self, tasks)
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._internal: dict[str, TopicSpec] = {}
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

    def register_internal_topic(self, new: TopicSpec) -> None:
        """Declare what an internal topic is to be when it is first needed (`ensure`).

        Settings that no part of this broker reads are stored with it and have no effect.
        """
        self._internal[new.name] = attrs.evolve(new, is_registered=True)

    async def load(self, progress: Callable[[int], None] | None = None) -> None:
        """Open every topic in the metadata; `progress` gets the number of opened partitions."""
        records = [*self._metadata.image.topics.values()]
        configs = [self._config_of(record) for record in records]
        specs = [
            spec
            for record, config in zip(records, configs, strict=True)
            for spec in run_to_end(partition_specs(record, config))
        ]
        partitions = await self._replicas.open(specs, progress)
        for partition, led in zip(
            partitions, chain.from_iterable(record.partitions for record in records), strict=True
        ):
            # Before the log is loaded: that of another leader has an end that need not be committed.
            self._replicas.assign(partition, led)
        await self._replicas.load_state(partitions)
        remaining = iter(partitions)
        for record, config in zip(records, configs, strict=True):
            topic = self._add(record, config, [next(remaining) for _ in record.partitions])
            await self._store_epochs(record, topic)
            self._events.publish(PartitionsOpened(topic, tuple(topic.partitions)))
        await self._storage.quarantine_stray_partitions()
        if self._storage.failed_partitions:
            await self._metadata.fail_partitions(sorted(self._storage.failed_partitions))

    async def _store_epochs(self, record: TopicImage, topic: Topic) -> None:
        """Store leader epochs that were learned from the logs of partitions which this broker leads."""
        led = tuple(
            each._replace(leader_epoch=partition.leader_epoch) if partition.is_leader else each
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

    async def create(self, new: TopicSpec) -> Topic:
        """Have the controller create a topic, and return it.

        Raises:
            BrokerError: it is refused, see `Controller.check_topic`.
            StorageError: the disk refused; there is no such topic.
        """
        (created,) = await self._controller.create_topics([new])
        if isinstance(created, BrokerError):
            raise created
        return self.get(new.name)

    async def ensure(self, name: str) -> Topic:
        """Return the topic of that name; create it if it is missing, as registered or with the defaults.

        Raises:
            BrokerError: as `create`.
        """
        topic = self._by_name.get(name)
        if topic is not None:
            return topic
        try:
            return await self.create(self._internal.get(name) or TopicSpec(name))
        # Another request has created it since the look above.
        except TopicAlreadyExists:
            return self.get(name)

    def request(self, name: str) -> None:
        """Create the topic in the background, as `ensure` does; a failure is logged."""
        self._auto_creation.request(name)

    async def alter_config(self, name: str, alter: Alter, *, validate_only: bool = False) -> None:
        """Have the controller change what is set for a topic; its partitions use it on return.

        Raises:
            BrokerError: why it is refused, or what `alter` raises, see `Controller.alter_topic_configs`.
        """
        (refused,) = await self._controller.alter_topic_configs([(name, alter)], validate_only=validate_only)
        if refused is not None:
            raise refused

    async def grow(self, name: str, count: int) -> None:
        """Have the controller add partitions to a topic, until it has `count`.

        Raises:
            BrokerError: why it is refused, see `Controller.create_partitions`.
        """
        (refused,) = await self._controller.create_partitions([(name, count)])
        if refused is not None:
            raise refused

    async def delete(self, name: str) -> None:
        """Have the controller delete a topic.

        Raises:
            UnknownTopicOrPartition: there is none.
            StorageError: the disk refused; the topic is as before.
        """
        (refused,) = await self._controller.delete_topics([name])
        if refused is not None:
            raise refused

    async def follow(self, change: ImageChange) -> None:
        """Delete, create and change topics as a delta does."""
        delta = change.delta
        # First: a topic that was deleted and created again in one delta needs its name.
        await self._remove([topic for name in delta.topics if (topic := self._replaced(name, delta))])
        pace = Pace()
        for record in delta.topics.values():
            if record is not None:
                topic = self._by_name.get(record.name)
                if topic is None:
                    await self._create(record, pace)
                else:
                    await self._change(topic, record, pace)
            await pace.turn()

    def _replaced(self, name: str, delta: MetadataDelta) -> Topic | None:
        """Return the topic of a name, if a delta removes it, or has another one of that name."""
        topic, record = self._by_name.get(name), delta.topics[name]
        return topic if topic and (record is None or record.topic_id != topic.topic_id) else None

    async def _create(self, record: TopicImage, pace: Pace) -> None:
        config = self._config_of(record)
        partitions = await self._new_partitions(record, config, 0, pace)
        topic = self._add(record, config, partitions)
        _log.info("created topic %s with %d partitions", record.name, len(partitions))
        self._events.publish(TopicCreated(topic))
        self._events.publish(PartitionsOpened(topic, tuple(partitions)))

    async def _change(self, topic: Topic, record: TopicImage, pace: Pace) -> None:
        if record.config != topic.overrides or record.adopted != topic.adopted:
            topic.overrides, topic.adopted = record.config, record.adopted
            config, _ = checked_topic_config(self._config, record.config)
            await run_in_steps(topic.configure(config), pace)
            _log.info("changed the configuration of topic %s", topic.name)
            self._events.publish(TopicConfigChanged(topic))
        # Now, so that a new leader takes its first batch by the configuration that came with it.
        first = len(topic.partitions)
        await self._replicas.follow(topic.partitions, record.partitions[:first], pace)
        if len(record.partitions) > first:
            added = await self._new_partitions(record, topic.config, first, pace)
            topic.partitions += added
            # Served only when they are assigned and configured: requests may come at the next checkpoint.
            self._replicas.serve(added)
            self.version += 1
            _log.info("topic %s has %d partitions now", topic.name, len(topic.partitions))
            self._events.publish(PartitionsOpened(topic, tuple(added)))

    async def _new_partitions(
        self, record: TopicImage, config: TopicConfig, first: int, pace: Pace
    ) -> list[Partition]:
        """Return the partitions from number `first` on, which the controller has reserved.

        Several changes may be followed at once, so they may have been reserved one after the other.
        """
        partitions: list[Partition] = []
        while first + len(partitions) < len(record.partitions):
            number = first + len(partitions)
            reserved = self._reservations.take(record.topic_id, number)
            if reserved is None:
                await self._reservations.reserve([NewPartitions(record, config, number)])
                continue
            # The defaults of the broker may have changed since the reservation.
            for partition in reserved.partitions if reserved.config != config else ():
                partition.log.configure(config)
                await pace.turn()
            partitions += reserved.partitions
        for partition, led in zip(partitions, record.partitions[first:], strict=True):
            self._replicas.assign(partition, led)
            await pace.turn()
        return partitions

    async def _remove(self, topics: Sequence[Topic]) -> None:
        """Take topics out of service whose metadata is gone, and delete their partitions."""
        if not topics:
            return
        pace = Pace()
        for topic in topics:
            # Out of sight before the logs are deleted, so that no request finds a topic without them.
            del self._by_name[topic.name], self._by_id[topic.topic_id.bytes]
            self._replicas.withdraw(topic.partitions)
            self.version += 1
            await pace.turn()
        await self._replicas.discard([*chain.from_iterable(topic.partitions for topic in topics)])
        for topic in topics:
            _log.info("deleted topic %s", topic.name)
            self._events.publish(TopicDeleted(topic))
            await pace.turn()

    async def refresh_configs(self) -> None:
        """Apply the broker's present defaults to every topic."""
        pace = Pace()
        for topic in list(self):
            config, _ = checked_topic_config(self._config, topic.overrides)
            if config != topic.config:
                await run_in_steps(topic.configure(config), pace)
                self._events.publish(TopicConfigChanged(topic))
            await pace.turn()

    def partitions(self) -> Iterator[Partition]:
        """Iterate over every partition of every topic."""
        for topic in self:
            yield from topic.partitions

    def wake_all_waiters(self) -> None:
        """Answer every long poll now, and later ones at once: the broker stops."""
        # Before the waiters are woken: a fetch that reads again must not wait again.
        self.closing = True
        self._replicas.abandon_waiters()

    async def close(self) -> None:
        """Close all partitions; the state of those that the disk does not refuse is on it afterwards."""
        self._by_name.clear()
        self._by_id.clear()
        await self._replicas.close()

    def _add(self, record: TopicImage, config: TopicConfig, partitions: list[Partition]) -> Topic:
        topic = Topic(record.name, record.topic_id, record.config, config, partitions, record.adopted)
        self._by_name[topic.name] = self._by_id[topic.topic_id.bytes] = topic
        self._replicas.serve(partitions)
        self.version += 1
        return topic

    def _config_of(self, record: TopicImage) -> TopicConfig:
        """Return a stored topic's configuration; settings that this broker does not know are logged."""
        config, problems = checked_topic_config(self._config, record.config)
        for problem in problems:
            _log.warning("topic %s: %s", record.name, problem)
        return config
