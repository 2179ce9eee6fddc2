"""Topics: which may be created, changed and deleted, and how."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

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
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tidelog.kernel.metadata import MetadataImage, PartitionImage, TopicImage
from tidelog.kernel.seams.controller import NewPartitions
from tidelog.kernel.topic_names import INTERNAL_TOPICS, METADATA_TOPIC, check_topic_name, metric_name

if TYPE_CHECKING:
    from tidelog.kernel.seams.controller import TopicSpec

MAX_PARTITIONS_PER_TOPIC = 10_000
"""Limit of what one request can make the broker create."""


class TopicRules:
    """Decides changes of topics; `check_storage(config)` raises what the storage does not support."""

    def __init__(self, config: Config, node_id: int, check_storage: Callable[[TopicConfig], None]) -> None:
        self._config = config
        self._check_storage = check_storage
        self._new_partition = PartitionImage(leader=node_id, replicas=(node_id,), isr=(node_id,))
        # The topics, and those that are being created, by their names in metrics: no two may have the same.
        self._names: dict[str, str] = {}

    def load(self, image: MetadataImage) -> None:
        """Take over the names of all topics."""
        self._names = {metric_name(name): name for name in image.topics}

    def take_name(self, name: str) -> None:
        """Refuse other topics of that name from now on."""
        self._names[metric_name(name)] = name

    def free_name(self, name: str) -> None:
        """Permit topics of that name again: there is none, or none any more."""
        self._names.pop(metric_name(name), None)

    def decide_topic(self, new: TopicSpec) -> NewPartitions:
        """Return the topic to create.

        Raises:
            InvalidTopic, TopicAlreadyExists, InvalidPartitions, InvalidReplicationFactor, InvalidTopicConfig
            InvalidRequest: the name is the broker's own.
        """
        self._check_name(new.name)
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
        if new.is_registered:
            config, _ = checked_topic_config(self._config, new.config)
        else:
            config = topic_config(self._config, new.config)
            check_conflicts(self._config, config, new.config)
        self._check_storage(config)
        led = (self._new_partition,) * partitions
        return NewPartitions(TopicImage(new.name, uuid.uuid4(), led, dict(new.config)), config)

    def _check_name(self, name: str) -> None:
        check_topic_name(name)
        if name == METADATA_TOPIC:
            raise InvalidRequest(f"{METADATA_TOPIC} is the broker's own log and no topic")
        other = self._names.get(metric_name(name))
        if other == name:
            raise TopicAlreadyExists(f"topic {name!r} already exists")
        if other is not None:
            raise InvalidTopic(f"topic {name!r} collides with {other!r}: '.' and '_' count as the same")

    def decide_partitions(self, image: MetadataImage, name: str, count: int) -> NewPartitions:
        """Return the partitions that a topic gets so that it has `count`.

        Raises:
            UnknownTopicOrPartition, InvalidRequest, InvalidPartitions: see `check_growth`.
        """
        topic = self.check_growth(image, name, count)
        present = len(topic.partitions)
        grown = topic.partitions + (self._new_partition,) * (count - present)
        config, _ = checked_topic_config(self._config, topic.config)
        return NewPartitions(attrs.evolve(topic, partitions=grown), config, present)

    @staticmethod
    def check_growth(image: MetadataImage, name: str, count: int) -> TopicImage:
        """Return the topic, if it can have that many partitions; no limit of a request is checked.

        Raises:
            UnknownTopicOrPartition, InvalidRequest, InvalidPartitions: it cannot.
        """
        topic = existing_topic(image, name)
        present = len(topic.partitions)
        if name in INTERNAL_TOPICS:
            raise InvalidRequest(
                f"topic {name!r} is internal and keeps its {present} partition(s), since their "
                "number decides in which of them state is; it is chosen before the topic is created, with "
                "offsets.topic.num.partitions or transaction.state.log.num.partitions"
            )
        if count == present:
            raise InvalidPartitions(f"topic {name!r} already has {present} partition(s)")
        if count < present:
            raise InvalidPartitions(
                f"topic {name!r} has {present} partition(s), {count} would not be an increase"
            )
        return topic

    def decide_config(self, image: MetadataImage, name: str, alter: Alter) -> TopicImage:
        """Return the topic with what `alter` gives from what is set for it; the same if that is the same.

        An adopted topic is an ordinary one afterwards, since its configuration was reviewed.

        Raises:
            UnknownTopicOrPartition: there is none.
            InvalidTopicConfig: an unknown key or a bad value is new.
            BrokerError: what `alter` raises.
        """
        topic = existing_topic(image, name)
        overrides = alter(topic.config)
        # Settings that another broker stored and that have no meaning here do not prevent a change.
        changed = {key: text for key, text in overrides.items() if topic.config.get(key) != text}
        self._check_storage(topic_config(self._config, changed))
        config, _ = checked_topic_config(self._config, overrides)
        check_conflicts(self._config, config, changed.keys() | topic.config.keys() - overrides.keys())
        return topic if overrides == topic.config else attrs.evolve(topic, config=overrides, adopted=False)


def existing_topic(image: MetadataImage, name: str) -> TopicImage:
    """Return a topic, or raise `UnknownTopicOrPartition`."""
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
    return topic
