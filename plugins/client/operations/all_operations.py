"""All operations, which are the methods of the clients."""

from tidelog.plugins.client.operations.configs import (
    ConfigChange,
    ConfigValue,
    alter_configs,
    describe_configs,
)
from tidelog.plugins.client.operations.fetching import (
    FetchLimits,
    close_fetch_sessions,
    fetch,
    fetch_partitions,
)
from tidelog.plugins.client.operations.group_offsets import GroupOffset, commit_offsets, committed_offsets
from tidelog.plugins.client.operations.metadata import metadata
from tidelog.plugins.client.operations.offsets import FoundOffset, list_offsets
from tidelog.plugins.client.operations.producer_ids import init_producer
from tidelog.plugins.client.operations.producing import Produced, produce, produce_batches
from tidelog.plugins.client.operations.reading import PartitionReader
from tidelog.plugins.client.operations.sending import or_raise, send_request, send_requests
from tidelog.plugins.client.operations.topics import (
    CreatedTopic,
    NewTopic,
    create_partitions,
    create_topics,
    delete_topics,
)
from tidelog.plugins.client.operations.transactions import (
    abort_transaction,
    commit_transaction,
    init_transactions,
    send_offsets,
)

__all__ = [
    "ConfigChange",
    "ConfigValue",
    "CreatedTopic",
    "FetchLimits",
    "FoundOffset",
    "GroupOffset",
    "NewTopic",
    "PartitionReader",
    "Produced",
    "abort_transaction",
    "alter_configs",
    "close_fetch_sessions",
    "commit_offsets",
    "commit_transaction",
    "committed_offsets",
    "create_partitions",
    "create_topics",
    "delete_topics",
    "describe_configs",
    "fetch",
    "fetch_partitions",
    "init_producer",
    "init_transactions",
    "list_offsets",
    "metadata",
    "or_raise",
    "produce",
    "produce_batches",
    "send_offsets",
    "send_request",
    "send_requests",
]
