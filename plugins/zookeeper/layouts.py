"""Which nodes there are: the layout of Kafka 0.8 and later, and that of 0.7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidelog.kernel.metadata import TopicImage
from tidelog.plugins.zookeeper import nodes
from tidelog.plugins.zookeeper.nodes import BrokerInfo

CONSUMERS: Final = "/consumers"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
CLUSTER: Final = "/cluster"
CLUSTER_ID: Final = "/cluster/id"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
TOPIC_CONFIGS: Final = "/config/topics"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE: Final = "config_change_"


class Node(NamedTuple):
    """A node as it should be."""

    path: str
    value: bytes = b""
    ephemeral: bool = False

    def matches(self, value: bytes, owner: int, session_id: int) -> bool:
        """Return whether a node with that value and owner is as it should be for that session."""
        if owner != (session_id if self.ephemeral else 0):
            return False
        if self.path.endswith("/state"):
            # An election alone is no reason to write all states again.
            return nodes.is_same_state(value, self.value)
        return value == self.value


Chain: TypeAlias = Sequence[Node]
"""Nodes that are written one after the other, each below one that is there by then."""


class NodeLayout(Protocol):
    """The nodes of brokers and topics."""

    @property
    def folders(self) -> Sequence[str]:
        """Persistent nodes without a value that have to be there, each below one before it."""
        ...

    @property
    def has_cluster(self) -> bool:
        """Whether there are nodes of the cluster and its controller, and all topics are of one cluster."""
        ...

    def broker(self, info: BrokerInfo) -> bytes:
        """Return the value of the node of a broker."""
        ...

    def topic(self, image: TopicImage, controller_epoch: int) -> tuple[Chain, Sequence[Chain]]:
        """Return the nodes of a topic: those that come first, and then each of the others."""
        ...

    def trees(self, topic_name: str) -> Sequence[str]:
        """Return the nodes below which, inclusive, everything goes with a topic."""
        ...


class KafkaLayout:
    """The layout of 0.8 and later. Source: `ZkData.PersistentZkPaths` of Apache Kafka 3.9."""

    folders: Sequence[str] = (
        CONSUMERS,
        "/brokers",
        BROKER_IDS,
        TOPICS,
        "/brokers/seqid",
        "/config",
        CONFIG_CHANGES,
        TOPIC_CONFIGS,
        "/config/clients",
        "/config/users",
        "/config/brokers",
        "/config/ips",
        "/admin",
        "/admin/delete_topics",
        "/isr_change_notification",
        "/latest_producer_id_block",
        "/log_dir_event_notification",
        CLUSTER,
    )
    has_cluster = True

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id

    def broker(self, info: BrokerInfo) -> bytes:
        """Return the value of `/brokers/ids/ID`."""
        return nodes.broker(info)

    def topic(self, image: TopicImage, controller_epoch: int) -> tuple[Chain, Sequence[Chain]]:
        """Return configuration and assignment, and a chain for each partition."""
        root = f"{TOPICS}/{image.name}"
        head = (
            # As Kafka does it: what sees the topic finds its configuration.
            Node(f"{TOPIC_CONFIGS}/{image.name}", nodes.topic_config(image.config)),
            Node(root, nodes.topic(image, self._node_id)),
            Node(f"{root}/partitions"),
        )
        partitions = [
            (
                Node(f"{root}/partitions/{number}"),
                Node(
                    f"{root}/partitions/{number}/state",
                    nodes.partition_state(partition, self._node_id, controller_epoch),
                ),
            )
            for number, partition in enumerate(image.partitions)
        ]
        return head, partitions

    def trees(self, topic_name: str) -> Sequence[str]:
        """Return the nodes of the topic and of its configuration."""
        return f"{TOPICS}/{topic_name}", f"{TOPIC_CONFIGS}/{topic_name}"


class Layout07:
    """The layout of 0.7, whose brokers were independent: each has ephemeral nodes below its topics."""

    folders: Sequence[str] = (CONSUMERS, "/brokers", BROKER_IDS, TOPICS)
    has_cluster = False

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id

    def broker(self, info: BrokerInfo) -> bytes:
        """Return the value of `/brokers/ids/ID`."""
        return nodes.broker_07(info)

    def topic(self, image: TopicImage, controller_epoch: int) -> tuple[Chain, Sequence[Chain]]:
        """Return `/brokers/topics/NAME/ID`, which has the number of partitions."""
        count = str(len(image.partitions)).encode()
        return (
            Node(f"{TOPICS}/{image.name}"),
            Node(f"{TOPICS}/{image.name}/{self._node_id}", count, ephemeral=True),
        ), ()

    def trees(self, topic_name: str) -> Sequence[str]:
        """Return this broker's node; other brokers may have the topic, too."""
        return (f"{TOPICS}/{topic_name}/{self._node_id}",)
