"""Topics: their ids, configuration and partitions; creating, changing and deleting them."""

from tidelog.kernel.seams.topics import NewTopic
from tidelog.kernel.topics.topic import Topic
from tidelog.kernel.topics.topics import Topics

__all__ = ["NewTopic", "Topic", "Topics"]
