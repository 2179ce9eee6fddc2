"""Changes of a metadata store without a controller, and what it has."""

from __future__ import annotations

import attrs

from tidelog.kernel.broker import Broker
from tidelog.kernel.metadata import MetadataDelta, TopicImage
from tidelog.kernel.seams.metadata import MetadataStore
from tidelog.kernel.topic_partition import TopicPartition


async def put_topics(store: MetadataStore, *topics: TopicImage) -> None:
    """Create or change topics, in one commit."""
    await store.commit(MetadataDelta.of_topics(*topics))


async def remove_topics(store: MetadataStore, *names: str) -> None:
    """Remove topics, in one commit."""
    await store.commit(MetadataDelta(topics=dict.fromkeys(names)))


async def allocate_producer_ids(store: MetadataStore, count: int) -> range:
    """Allocate producer ids, in one commit."""
    first = store.image.next_producer_id
    await store.commit(MetadataDelta(next_producer_id=first + count))
    return range(first, first + count)


def topics_of(store: MetadataStore) -> list[TopicImage]:
    """All topics, in the order in which they were created."""
    return [*store.image.topics.values()]


def leader_epochs(store: MetadataStore) -> tuple[int, ...]:
    """The leader epochs of the partitions of the only topic."""
    (topic,) = topics_of(store)
    return tuple(partition.leader_epoch for partition in topic.partitions)


async def lead_partitions(broker: Broker, *names: TopicPartition, leader_id: int) -> None:
    """Let a broker lead partitions from now on, in the next epoch; `broker` follows that."""
    topics: dict[str, TopicImage] = {}
    for name in names:
        topic = topics.get(name.topic) or broker.image.topics[name.topic]
        led = [*topic.partitions]
        led[name.partition] = led[name.partition]._replace(
            leader=leader_id, leader_epoch=led[name.partition].leader_epoch + 1, isr=(leader_id,)
        )
        topics[name.topic] = attrs.evolve(topic, partitions=tuple(led))
    await put_topics(broker.metadata, *topics.values())
    await broker.publisher.catch_up()
