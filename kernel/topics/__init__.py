"""Topics as they follow the metadata image: their ids, configuration and partitions."""

from tidelog.kernel.topics.topic import Topic
from tidelog.kernel.topics.topics import Topics

__all__ = ["Topic", "Topics"]
