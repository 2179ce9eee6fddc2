"""A metadata store of one backend below the storage that it is used with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TypeAlias
from uuid import UUID

from tidelog.kernel.config import Config
from tidelog.kernel.metadata import ConfigOwner, MetadataDelta, TopicImage
from tidelog.kernel.seams.metadata import MetadataBackend, MetadataContext, MetadataStore
from tidelog.kernel.seams.storage import Storage, StorageContext
from tidelog.kernel.stores import close_stores, open_stores
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.clock import FakeClock
from tidelog.kernel.testing.installed import installed_plugins, with_installed_keys

TopicContent: TypeAlias = tuple[str, UUID, int, Mapping[str, str], bool]
"""Name, id, number of partitions, configuration, and whether the topic is adopted."""


def described(topic: TopicImage) -> TopicContent:
    """Return what of a topic no start changes."""
    return topic.name, topic.topic_id, len(topic.partitions), topic.config, topic.adopted


class MetadataHarness:
    """A metadata store that can be closed and opened again on the same data.

    A durable one is opened with the installed storage `file` in `place`, others with `memory`. `settings` are
    configuration keys to set beside `log.dirs`.
    """

    def __init__(
        self, plugin: ModuleType, place: Path, tasks: BackgroundTasks, settings: dict[str, object]
    ) -> None:
        own_keys = list(plugin.tidelog_config_keys()) if hasattr(plugin, "tidelog_config_keys") else []
        self.backend: MetadataBackend = next(iter(plugin.tidelog_metadata_stores()))
        name = "file" if self.backend.durable else "memory"
        where = {"log.dirs": str(place / "data")} if self.backend.durable else {}
        self.config = Config.from_mapping(
            {"storage": name, **where, **settings}, with_installed_keys(own_keys)
        )
        self.clock = FakeClock()
        self.tasks = tasks
        self.delivered: list[MetadataDelta] = []
        self._storages = installed_plugins().storage_backend(name)
        self.store, self.storage = self.new_store()

    def new_store(self) -> tuple[MetadataStore, Storage]:
        """Return a store that is not open yet, and the storage whose directories it may use."""
        node_id = 1
        context = MetadataContext(self.config, node_id, self.clock, self.delivered.append)
        store = self.backend.create(context)
        return store, self._storages.create(StorageContext(self.config, node_id, self.tasks, self.clock))

    async def open(self) -> None:
        """Open the storage and the store, and start the store's background tasks, as a broker does."""
        await open_stores(self.storage, self.store)
        for task in self.store.background_tasks():
            self.tasks.start(task)

    async def put_topics(self, *topics: TopicImage) -> None:
        """Create or change topics."""
        await self.store.commit(MetadataDelta.of_topics(*topics))

    async def remove_topics(self, *names: str) -> None:
        """Remove topics."""
        await self.store.commit(MetadataDelta(topics=dict.fromkeys(names)))

    def topics(self) -> list[TopicContent]:
        """Return all topics, without what a start changes of partitions."""
        return [described(topic) for topic in self.store.image.topics.values()]

    async def put_broker_config(self, node_id: int | None, config: Mapping[str, str]) -> None:
        """Replace what is set for a broker, or with None for all."""
        await self.store.commit(MetadataDelta(configs={ConfigOwner.of_broker(node_id): config}))

    def broker_config(self, node_id: int | None) -> Mapping[str, str]:
        """Return what is set for a broker, or with None for all."""
        return self.store.image.config(ConfigOwner.of_broker(node_id))

    async def close(self) -> None:
        """Close the storage and the store."""
        await close_stores(self.storage, self.store)

    async def reopen(self) -> None:
        """Close a durable store and open a new one on the same data; one that is not durable stays open."""
        if self.backend.durable:
            await self.close()
            self.store, self.storage = self.new_store()
            await self.open()
