"""The records that make an image: the content of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.plugins.metadata_kraft.framing import frame
from tidelog.plugins.metadata_kraft.image.state import METADATA_VERSION, MetadataImage
from tidelog.plugins.metadata_kraft.image.versions import partition_version, registration_version
from tidelog.plugins.metadata_kraft.records.cluster import FeatureLevelRecord, ProducerIdsRecord
from tidelog.plugins.metadata_kraft.records.settings import ConfigRecord
from tidelog.plugins.metadata_kraft.records.topics import TopicRecord

NO_BROKER = -1


def image_records(image: MetadataImage) -> Iterator[bytes]:
    """Framed records which, applied to an empty image, give this one; in Kafka's order."""
    yield from _features(image)
    for broker in image.brokers.values():
        yield frame(broker, registration_version(image.metadata_version))
    for controller in image.controllers.values():
        yield frame(controller)
    version = partition_version(image.metadata_version)
    for topic in image.topics.values():
        yield frame(TopicRecord(name=topic.name, topic_id=topic.topic_id))
        for partition in topic.partitions.values():
            yield frame(partition, version)
    for (kind, resource), values in image.configs.items():
        for name, value in values.items():
            yield frame(ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value))
    if image.next_producer_id:
        yield frame(ProducerIdsRecord(broker_id=NO_BROKER, next_producer_id=image.next_producer_id))
    yield from image.kept.values()


def _features(image: MetadataImage) -> Iterator[bytes]:
    """Feature levels; the version of the metadata comes first, since readers need it for all the rest."""
    names = sorted(image.features, key=lambda name: name != METADATA_VERSION)
    for name in names:
        yield frame(FeatureLevelRecord(name=name, feature_level=image.features[name]))
