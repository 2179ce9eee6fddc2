"""Topics: their names, ids, configuration and partitions; creating, changing and deleting them."""

from tidelog.kernel.seams.topics import NewTopic
from tidelog.kernel.topics.names import check_topic_name
from tidelog.kernel.topics.topic import INTERNAL_TOPICS, Topic
from tidelog.kernel.topics.topics import Topics

__all__ = ["INTERNAL_TOPICS", "NewTopic", "Topic", "Topics", "check_topic_name"]
