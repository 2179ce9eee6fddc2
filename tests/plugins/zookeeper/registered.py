"""A registry over an ensemble in memory, with an image that a test replaces."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID, uuid4

import attrs

from tests.plugins.zookeeper.fake_zookeeper import Ensemble, FakeZooKeeper
from tidelog.kernel.metadata import MetadataImage, PersistentMap, TopicImage, topic_image
from tidelog.plugins.zookeeper.connect_string import parse_connect_string
from tidelog.plugins.zookeeper.layouts import KafkaLayout, NodeLayout
from tidelog.plugins.zookeeper.nodes import AdvertisedEndpoint, BrokerInfo
from tidelog.plugins.zookeeper.registry import Registry, RegistryContext

CLUSTER = "lcj1eaoyQ8KcHHUdtWUv3A"
CONNECT = parse_connect_string("zoo:2181/k")
TOPIC_ID = UUID(int=1)


def broker_info(node_id: int = 1, port: int = 9092) -> BrokerInfo:
    return BrokerInfo(node_id, [AdvertisedEndpoint("PLAINTEXT", "broker", port, "PLAINTEXT")], 17)


@attrs.define
class Registered:
    """A broker's registry, its client and its ensemble; `put` and `remove` change the image."""

    ensemble: Ensemble = attrs.field(factory=Ensemble)
    info: BrokerInfo = attrs.field(factory=broker_info)
    layout: NodeLayout | None = None
    cluster_id: str = CLUSTER
    image: MetadataImage = attrs.field(init=False)
    zookeeper: FakeZooKeeper = attrs.field(init=False)
    registry: Registry = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.image = MetadataImage(cluster_id=self.cluster_id)
        self.zookeeper = FakeZooKeeper(self.ensemble)
        self.zookeeper.connect()
        context = RegistryContext(
            CONNECT,
            self.layout or KafkaLayout(self.info.node_id),
            self.info,
            lambda: self.image,
            lambda: self.ensemble.now_ms,
            3,
        )
        self.registry = Registry(self.zookeeper, context)

    def put(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        topic_id: UUID | None = None,
    ) -> TopicImage:
        """Create or change a topic, by default with the id that it has."""
        there = self.image.topics.get(name)
        topic_id = topic_id or (there.topic_id if there is not None else uuid4())
        topic = topic_image(name, topic_id, partitions, config)
        self._change({name: topic})
        return topic

    def remove(self, name: str) -> None:
        self._change({name: None})

    def _change(self, changes: Mapping[str, TopicImage | None]) -> None:
        topics: PersistentMap[str, TopicImage] = self.image.topics.updated(changes)
        self.image = attrs.evolve(self.image, topics=topics)

    def below(self, path: str) -> list[str]:
        return self.ensemble.below(path)

    def value(self, path: str) -> bytes:
        return self.ensemble.read(path).value
