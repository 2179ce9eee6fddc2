"""Operations of a client, each written once and without I/O (see `tidelog.plugins.client.steps`)."""

from tidelog.plugins.client.operations.configs import (
    ConfigChange,
    ConfigValue,
    alter_configs,
    describe_configs,
)
from tidelog.plugins.client.operations.fetching import FetchLimits, PartitionReader, fetch
from tidelog.plugins.client.operations.metadata import metadata
from tidelog.plugins.client.operations.offsets import FoundOffset, list_offsets
from tidelog.plugins.client.operations.producing import IdempotentProducer, Produced, init_producer, produce
from tidelog.plugins.client.operations.sending import or_raise, send_request, send_requests
from tidelog.plugins.client.operations.topics import (
    CreatedTopic,
    NewTopic,
    create_partitions,
    create_topics,
    delete_topics,
)

__all__ = [
    "ConfigChange",
    "ConfigValue",
    "CreatedTopic",
    "FetchLimits",
    "FoundOffset",
    "IdempotentProducer",
    "NewTopic",
    "PartitionReader",
    "Produced",
    "alter_configs",
    "create_partitions",
    "create_topics",
    "delete_topics",
    "describe_configs",
    "fetch",
    "init_producer",
    "list_offsets",
    "metadata",
    "or_raise",
    "produce",
    "send_request",
    "send_requests",
]
