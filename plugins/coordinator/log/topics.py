"""The internal topics of coordinators, with the settings that Apache Kafka creates them with.

One replica each: a single broker has no place for a second one, and with Kafka's default of three it could
never create the topics. Source: the settings of Kafka 4.3's internal topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.kernel.seams.topics import NewTopic
from tidelog.plugins.coordinator import keys
from tidelog.plugins.coordinator.log.topic_log import TopicLog

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.backend import CoordinatorContext

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"


def group_log(broker: CoordinatorContext) -> TopicLog:
    """Return the log of groups and their offsets."""
    config = broker.config
    settings = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config[keys.OFFSETS_TOPIC_SEGMENT_BYTES]),
    }
    return TopicLog(
        broker,
        NewTopic(OFFSETS_TOPIC, config[keys.OFFSETS_TOPIC_NUM_PARTITIONS], config=settings),
        load_bytes=config[keys.OFFSETS_LOAD_BUFFER_SIZE],
        codec=config[keys.OFFSETS_TOPIC_COMPRESSION_CODEC],
    )


def transaction_log(broker: CoordinatorContext) -> TopicLog:
    """Return the log of transactions."""
    config = broker.config
    settings = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": str(config[keys.TRANSACTION_STATE_LOG_SEGMENT_BYTES]),
        "unclean.leader.election.enable": "false",
    }
    return TopicLog(
        broker,
        NewTopic(TRANSACTION_TOPIC, config[keys.TRANSACTION_STATE_LOG_NUM_PARTITIONS], config=settings),
        load_bytes=config[keys.TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE],
    )


def has_state(broker: CoordinatorContext) -> bool:
    """Return whether there is any state of coordinators to load."""
    return any(broker.topics.find(name) is not None for name in (OFFSETS_TOPIC, TRANSACTION_TOPIC))
