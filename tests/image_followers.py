"""Topics and configuration that follow the image of a store, and the controller that decides it."""

from __future__ import annotations

from tidelog.kernel.clock import Clock
from tidelog.kernel.cluster.dynamic_config import DynamicConfig
from tidelog.kernel.cluster.features import Features
from tidelog.kernel.config import Config, keys
from tidelog.kernel.events import BrokerEvents
from tidelog.kernel.log.memory_budget import Unpacking
from tidelog.kernel.metadata.publisher import MetadataPublisher
from tidelog.kernel.replica import ReplicaManager
from tidelog.kernel.seams.controller import ControllerContext
from tidelog.kernel.seams.metadata import MetadataStore
from tidelog.kernel.seams.storage import Storage
from tidelog.kernel.seams.tasks import Tasks
from tidelog.kernel.topics import Topics
from tidelog.kernel.topics.reservations import Reservations
from tidelog.plugins.controller_local.plugin import LocalBackend


class ImageFollowers:
    """What a broker has above a storage and a metadata store, whose deltas go to `publisher.deliver`."""

    def __init__(
        self, config: Config, storage: Storage, metadata: MetadataStore, clock: Clock, tasks: Tasks
    ) -> None:
        unpacking = Unpacking(config[keys.DECOMPRESSION_MEMORY_BYTES])
        self.events = BrokerEvents()
        self.replicas = ReplicaManager(
            config[keys.NODE_ID], storage, clock, tasks, unpacking, self.events.publish
        )
        reservations = Reservations(self.replicas, storage)
        features = Features(metadata, has_coordinator=False)
        node_id = config[keys.NODE_ID]
        self._metadata = metadata
        backend = LocalBackend()
        self.controller = backend.create(
            ControllerContext(
                config,
                node_id,
                metadata,
                features.supported,
                reservations,
                self._catch_up,
                lambda name: backend,
                clock,
            )
        )
        self.topics = Topics(
            config, storage, self.replicas, reservations, metadata, self.controller, tasks, self.events
        )
        self.dynamic_config = DynamicConfig(config, node_id, self.events, self.topics.refresh_configs)
        self.publisher = MetadataPublisher(lambda: metadata.image, (self.topics, self.dynamic_config))

    def load(self) -> None:
        """Take over the image as a whole, and deltas from now on; topics are loaded after that."""
        self.controller.load(self.publisher.begin())

    async def _catch_up(self) -> None:
        await self.publisher.catch_up()
