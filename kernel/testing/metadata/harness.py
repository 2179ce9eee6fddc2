"""A metadata store of one backend below the storage that it is used with."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from tidelog.kernel.config import Config
from tidelog.kernel.seams.metadata import MetadataBackend, MetadataContext, MetadataStore
from tidelog.kernel.seams.storage import Storage, StorageContext
from tidelog.kernel.stores import close_stores, open_stores
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.clock import FakeClock
from tidelog.kernel.testing.installed import installed_plugins, with_installed_keys


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
        self._storages = installed_plugins().storage_backend(name)
        self.store, self.storage = self.new_store()

    def new_store(self) -> tuple[MetadataStore, Storage]:
        """Return a store that is not open yet, and the storage whose directories it may use."""
        node_id = 1
        store = self.backend.create(MetadataContext(self.config, node_id, self.clock))
        context = StorageContext(self.config, node_id, self.tasks, self.clock)
        return store, self._storages.create(context)

    async def open(self) -> None:
        """Open the storage and the store, and start the store's background tasks, as a broker does."""
        await open_stores(self.storage, self.store)
        for task in self.store.background_tasks():
            self.tasks.start(task)

    async def close(self) -> None:
        """Close the storage and the store."""
        await close_stores(self.storage, self.store)

    async def reopen(self) -> None:
        """Close a durable store and open a new one on the same data; one that is not durable stays open."""
        if self.backend.durable:
            await self.close()
            self.store, self.storage = self.new_store()
            await self.open()
