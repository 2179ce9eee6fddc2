"""The metadata image: all that is true of the cluster at one moment, and deltas between two images.

An image never changes. A delta has the new state of everything that it changes, so deltas can be merged
(`then`), and applying a sequence of them ends in the same image however they are grouped. To apply one takes
as long as what it changes, and not as long as the image is. Source: Apache Kafka's `MetadataImage` and
`MetadataDelta` (KIP-500).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar
from uuid import UUID

import attrs

from tidelog.kernel.metadata.acls import AclEntry
from tidelog.kernel.metadata.client_quotas import QuotaEntity
from tidelog.kernel.metadata.delegation_tokens import DelegationTokenImage
from tidelog.kernel.metadata.persistent_map import PersistentMap
from tidelog.kernel.metadata.scram import CredentialKey, ScramCredential
from tidelog.kernel.topic_partition import TopicPartition

NO_LEADER: Final = -1
NO_DIRECTORY: Final = bytes(16)
"""Id of the log directory of a partition that was assigned to none (KIP-858)."""

ResourceScope: TypeAlias = Literal["group", "client-metrics"]
"""The kinds of resources beside topics and brokers; their keys are those of that scope."""


class ConfigOwner(NamedTuple):
    """What has a configuration beside topics; a broker's name is its node id, and empty for all brokers."""

    scope: Literal["broker"] | ResourceScope
    name: str

    @classmethod
    def of_broker(cls, node_id: int | None) -> ConfigOwner:
        """Return a broker, or with None all brokers."""
        return cls("broker", "" if node_id is None else str(node_id))


ALL_BROKERS: Final = ConfigOwner.of_broker(None)


class PartitionImage(NamedTuple):
    """A partition: its leader (a node id or `NO_LEADER`) and epoch, replicas, those in sync, log directory.

    Without replicas it is assigned to no broker, as in a store that does not record that; then the broker
    that has it leads it.
    """

    leader_epoch: int = 0
    leader: int = NO_LEADER
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    directory: bytes = NO_DIRECTORY


@attrs.frozen
class TopicImage:
    """A topic: its id, its partitions by number, and what is set for it in Kafka's notation.

    `adopted`: the topic was found as directories without a configuration, so nothing of it is deleted or
    compacted until its configuration is changed.
    """

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...]
    config: Mapping[str, str] = attrs.field(factory=dict[str, str])
    adopted: bool = False


def topic_image(
    name: str,
    topic_id: UUID,
    partitions: int,
    config: Mapping[str, str] | None = None,
    leader_epochs: Iterable[int] = (),
    *,
    adopted: bool = False,
) -> TopicImage:
    """Return a topic with so many partitions, in epoch 0 beyond those of `leader_epochs`."""
    epochs = [*leader_epochs]
    led = map(PartitionImage, epochs + [0] * (partitions - len(epochs)))
    return TopicImage(name, topic_id, tuple(led), config or {}, adopted)


class BrokerImage(NamedTuple):
    """A registered broker: its epoch, listener name → advertised address, its rack, whether it is fenced."""

    epoch: int
    endpoints: Mapping[str, tuple[str, int]]
    rack: str | None = None
    fenced: bool = False


@attrs.frozen
class MetadataImage:
    """Topics by name, configuration of other resources, quotas, credentials, ACLs, features and brokers.

    A resource, entity or feature without settings is not in it. `acls` are by their id (16 bytes), and so are
    delegation `tokens` (22 characters).
    `features_epoch` grows with each change of a level, `next_producer_id` is the first that was never
    allocated.
    """

    cluster_id: str = ""
    topics: PersistentMap[str, TopicImage] = attrs.field(factory=PersistentMap[str, TopicImage])
    configs: PersistentMap[ConfigOwner, Mapping[str, str]] = attrs.field(
        factory=PersistentMap[ConfigOwner, Mapping[str, str]]
    )
    quotas: PersistentMap[QuotaEntity, Mapping[str, float]] = attrs.field(
        factory=PersistentMap[QuotaEntity, Mapping[str, float]]
    )
    credentials: PersistentMap[CredentialKey, ScramCredential] = attrs.field(
        factory=PersistentMap[CredentialKey, ScramCredential]
    )
    acls: PersistentMap[bytes, AclEntry] = attrs.field(factory=PersistentMap[bytes, AclEntry])
    tokens: PersistentMap[str, DelegationTokenImage] = attrs.field(
        factory=PersistentMap[str, DelegationTokenImage]
    )
    features: Mapping[str, int] = attrs.field(factory=dict[str, int])
    features_epoch: int = 0
    brokers: Mapping[int, BrokerImage] = attrs.field(factory=dict[int, BrokerImage])
    next_producer_id: int = 0

    def config(self, resource: ConfigOwner) -> Mapping[str, str]:
        """Return what is set for a resource that is no topic."""
        return self.configs.get(resource, {})

    def partition(self, name: TopicPartition) -> PartitionImage | None:
        """Return a partition, None without one of that name."""
        topic = self.topics.get(name.topic)
        if topic is None or name.partition >= len(topic.partitions):
            return None
        return topic.partitions[name.partition]


@attrs.frozen
class MetadataDelta:
    """The new state of what changes: None, or nothing that is set, for what is removed.

    A topic that is replaced has another id. A feature of level 0 is disabled.
    """

    topics: Mapping[str, TopicImage | None] = attrs.field(factory=dict[str, "TopicImage | None"])
    configs: Mapping[ConfigOwner, Mapping[str, str]] = attrs.field(
        factory=dict[ConfigOwner, Mapping[str, str]]
    )
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = attrs.field(
        factory=dict[QuotaEntity, Mapping[str, float]]
    )
    credentials: Mapping[CredentialKey, ScramCredential | None] = attrs.field(
        factory=dict[CredentialKey, "ScramCredential | None"]
    )
    acls: Mapping[bytes, AclEntry | None] = attrs.field(factory=dict[bytes, "AclEntry | None"])
    tokens: Mapping[str, DelegationTokenImage | None] = attrs.field(
        factory=dict[str, "DelegationTokenImage | None"]
    )
    features: Mapping[str, int] = attrs.field(factory=dict[str, int])
    features_epoch: int | None = None
    brokers: Mapping[int, BrokerImage | None] = attrs.field(factory=dict[int, "BrokerImage | None"])
    next_producer_id: int | None = None

    @classmethod
    def of_topics(cls, *topics: TopicImage) -> MetadataDelta:
        """Return the delta that creates or changes topics."""
        return cls(topics={topic.name: topic for topic in topics})

    def configures_broker(self, node_id: int) -> bool:
        """Return whether it changes what is set for a broker, or for all."""
        return ALL_BROKERS in self.configs or ConfigOwner.of_broker(node_id) in self.configs

    def apply(self, image: MetadataImage) -> MetadataImage:
        """Return the image after this delta."""
        return attrs.evolve(
            image,
            topics=_updated(image.topics, self.topics),
            # Nothing set is the same as not there: the map has only what has settings, and None removes.
            configs=_updated(image.configs, {key: value or None for key, value in self.configs.items()}),
            quotas=_updated(image.quotas, {key: value or None for key, value in self.quotas.items()}),
            credentials=_updated(image.credentials, self.credentials),
            acls=_updated(image.acls, self.acls),
            tokens=_updated(image.tokens, self.tokens),
            features=_without_zeros({**image.features, **self.features}) if self.features else image.features,
            features_epoch=image.features_epoch if self.features_epoch is None else self.features_epoch,
            brokers=_present({**image.brokers, **self.brokers}) if self.brokers else image.brokers,
            next_producer_id=(
                image.next_producer_id if self.next_producer_id is None else self.next_producer_id
            ),
        )

    def then(self, later: MetadataDelta) -> MetadataDelta:
        """Return the delta that does what this one and then `later` do."""
        return MetadataDelta(
            {**self.topics, **later.topics},
            {**self.configs, **later.configs},
            {**self.quotas, **later.quotas},
            {**self.credentials, **later.credentials},
            {**self.acls, **later.acls},
            {**self.tokens, **later.tokens},
            {**self.features, **later.features},
            self.features_epoch if later.features_epoch is None else later.features_epoch,
            {**self.brokers, **later.brokers},
            self.next_producer_id if later.next_producer_id is None else later.next_producer_id,
        )


class ImageChange(NamedTuple):
    """A delta, and the images before and after it."""

    before: MetadataImage
    delta: MetadataDelta
    image: MetadataImage

    def deleted_topics(self) -> Iterator[TopicImage]:
        """Iterate over topics that are gone, those included whose name another one has now."""
        for name, after in self.delta.topics.items():
            topic = self.before.topics.get(name)
            # Deltas that are merged may delete a topic and create another one of that name: only the id shows
            # it.
            if topic is not None and (after is None or after.topic_id != topic.topic_id):
                yield topic


class ImageFollower(Protocol):
    """A part of the broker that has something of the image."""

    async def follow(self, change: ImageChange) -> None:
        """Apply a change; return when it is applied. It does not raise."""
        ...


_K = TypeVar("_K")
_V = TypeVar("_V")


def _updated(there: PersistentMap[_K, _V], changes: Mapping[_K, _V | None]) -> PersistentMap[_K, _V]:
    return there.updated(changes) if changes else there


def _without_zeros(levels: Mapping[str, int]) -> Mapping[str, int]:
    return {name: level for name, level in levels.items() if level}


def _present(brokers: Mapping[int, BrokerImage | None]) -> Mapping[int, BrokerImage]:
    return {node_id: broker for node_id, broker in brokers.items() if broker is not None}
