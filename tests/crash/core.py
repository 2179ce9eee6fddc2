"""A broker without its sockets: topics above file storage, with background work that waits to be told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.image_followers import ImageFollowers
from tidelog.kernel.cluster.dynamic_config import DynamicConfig
from tidelog.kernel.config import Config, TopicConfig, keys
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.metadata import MetadataDelta
from tidelog.kernel.metadata.publisher import MetadataPublisher
from tidelog.kernel.plugins import builtin
from tidelog.kernel.seams.controller import Controller, TopicSpec
from tidelog.kernel.seams.metadata import BrokerRegistration, MetadataContext
from tidelog.kernel.seams.storage import StorageContext, TopicPartition
from tidelog.kernel.stores import close_stores, open_stores
from tidelog.kernel.testing import FakeClock
from tidelog.kernel.testing.tasks import ManualTasks
from tidelog.kernel.topics import Topic, Topics
from tidelog.plugins.metadata_kraft import plugin as metadata_kraft
from tidelog.plugins.metadata_kraft.store import KraftMetadata
from tidelog.plugins.retention import plugin as retention
from tidelog.plugins.storage_file import plugin as storage_file
from tidelog.plugins.storage_file.partition_store import FilePartitionStore
from tidelog.plugins.storage_file.storage import FileStorage

KEYS = [
    *builtin.tidelog_config_keys(),
    *storage_file.tidelog_config_keys(),
    *metadata_kraft.tidelog_config_keys(),
    *retention.tidelog_config_keys(),
]
SMALL: dict[str, object] = {
    "segment.bytes": 3000,
    "index.interval.bytes": 250,
    "segment.index.bytes": 1200,
    "file.delete.delay.ms": 0,
}
"""Sizes below what a user may set, so that everything happens after a few batches."""


class Core:
    """Topics in the directory `data` of `place`: opened, abandoned as by a crash or closed, over and over."""

    def __init__(self, place: Path, clock: FakeClock | None = None) -> None:
        self.data = place / "data"
        settings: dict[str, object] = {
            "log.dirs": str(self.data),
            "num.recovery.threads.per.data.dir": 1,
        }
        self.config = Config.from_mapping(settings, KEYS)
        self.clock = clock or FakeClock()
        self.tasks = ManualTasks()
        self.metadata: KraftMetadata
        self.storage: FileStorage
        self.topics: Topics
        self.dynamic_config: DynamicConfig
        self.publisher: MetadataPublisher
        self.controller: Controller

    async def open(self) -> None:
        """Start, as a broker does before it listens."""
        self.tasks = ManualTasks()
        node_id = self.config[keys.NODE_ID]
        self.metadata = KraftMetadata(MetadataContext(self.config, node_id, self.clock, self._deliver))
        context = StorageContext(
            self.config,
            node_id,
            self.tasks,
            self.clock,
            partition_assigned=self._partition_assigned,
            directory_failed=self.metadata.fail_directory,
        )
        self.storage = FileStorage(context)
        followers = ImageFollowers(self.config, self.storage, self.metadata, self.clock, self.tasks)
        self.topics, self.controller = followers.topics, followers.controller
        self.dynamic_config, self.publisher = followers.dynamic_config, followers.publisher
        await open_stores(self.storage, self.metadata)
        followers.load()
        await self.topics.load()
        await self.metadata.register_broker(BrokerRegistration({"PLAINTEXT": ("127.0.0.1", 9092)}, None))
        for task in (*self.storage.background_tasks(), *self.metadata.background_tasks()):
            self.tasks.start(task)
        for topic in self.topics:
            shrink(topic)

    def _deliver(self, delta: MetadataDelta) -> None:
        self.publisher.deliver(delta)

    async def _partition_assigned(self, partition: TopicPartition, directory_id: bytes) -> None:
        # Looked up at each call: tests replace the method.
        await self.metadata.assign_directory(partition, directory_id)

    async def create(self, name: str, partitions: int, **config: str) -> Topic:
        """Create a topic with small segments."""
        overrides = {key.replace("_", "."): value for key, value in config.items()}
        topic = await self.topics.create(TopicSpec(name, partitions, config=overrides))
        shrink(topic)
        return topic

    async def close(self) -> None:
        """A clean stop, in the order of a broker's."""
        await self.tasks.wait_for_jobs()
        await self.topics.close()
        await close_stores(self.storage, self.metadata)

    def abandon(self) -> None:
        """Let go of the files as the end of the process would."""
        self.tasks.drop_jobs()
        self.storage.abandon()


def shrink(topic: Topic) -> None:
    """Let the topic's partitions roll after a few batches."""
    for partition in topic.partitions:
        configure(partition.log, SMALL)


def configure(partition: UnifiedLog, changes: Mapping[str, object]) -> None:
    """Change a partition's configuration, without regard to the ranges that users are held to."""
    assert isinstance(partition.store, FilePartitionStore)
    partition.configure(TopicConfig({**partition.store.config.topic_values, **changes}))
