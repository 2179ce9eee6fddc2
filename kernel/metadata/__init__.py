"""What is true of the cluster: one immutable image, deltas to the next one, and who follows them."""

from tidelog.kernel.metadata.image import (
    ALL_BROKERS,
    NO_DIRECTORY,
    NO_LEADER,
    BrokerImage,
    ConfigOwner,
    ImageChange,
    ImageFollower,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    ResourceScope,
    TopicImage,
    topic_image,
)
from tidelog.kernel.metadata.persistent_map import PersistentMap

__all__ = [
    "ALL_BROKERS",
    "NO_DIRECTORY",
    "NO_LEADER",
    "BrokerImage",
    "ConfigOwner",
    "ImageChange",
    "ImageFollower",
    "MetadataDelta",
    "MetadataImage",
    "PartitionImage",
    "PersistentMap",
    "ResourceScope",
    "TopicImage",
    "topic_image",
]
