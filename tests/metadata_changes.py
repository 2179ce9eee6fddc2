"""Changes of a metadata store without a controller, and what it has."""

from __future__ import annotations

from tidelog.kernel.metadata import MetadataDelta, TopicImage
from tidelog.kernel.seams.metadata import MetadataStore


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
