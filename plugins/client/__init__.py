"""Kafka client: a sans-IO core, operations over it, and drivers for blocking code and for trio.

`connection` is the protocol without a socket, `operations` are requests and retries without I/O, and
`drivers` run them: `BlockingClient` for blocking code, `TrioClient` for trio. Importing this package imports
no event loop; `TrioClient` is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.kernel.records.batch import iter_batches
from tidelog.kernel.seams.compression import register_codecs
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.client.batches import EncodedBatch, FetchedBatch, NewRecord
from tidelog.plugins.client.drivers.blocking import BlockingClient
from tidelog.plugins.client.fetch_sessions import FetchSessions
from tidelog.plugins.client.fetched import committed_batches
from tidelog.plugins.client.operations import (
    ConfigChange,
    ConfigValue,
    CreatedTopic,
    FetchLimits,
    FoundOffset,
    GroupOffset,
    NewTopic,
    PartitionReader,
    Produced,
    or_raise,
)
from tidelog.plugins.client.producers import IdempotentProducer, TransactionalProducer
from tidelog.plugins.client.requests import PluginApi
from tidelog.plugins.client.settings import ClientSettings, RetryPolicy
from tidelog.plugins.compression import tidelog_compression_codecs
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)

if TYPE_CHECKING:
    from tidelog.plugins.client.drivers.trio_client import TrioClient

__all__ = [
    "EARLIEST_TIMESTAMP",
    "LATEST_TIMESTAMP",
    "MAX_TIMESTAMP",
    "BlockingClient",
    "ClientSettings",
    "ConfigChange",
    "ConfigValue",
    "CreatedTopic",
    "EncodedBatch",
    "FetchLimits",
    "FetchSessions",
    "FetchedBatch",
    "FoundOffset",
    "GroupOffset",
    "IdempotentProducer",
    "NewRecord",
    "NewTopic",
    "PartitionReader",
    "PluginApi",
    "Produced",
    "RetryPolicy",
    "TopicPartition",
    "TransactionalProducer",
    "TrioClient",
    "committed_batches",
    "iter_batches",
    "or_raise",
]


# A program that is only a client loads no plugins.
register_codecs(tidelog_compression_codecs(), replace=False)


def __getattr__(name: str) -> Any:
    if name == "TrioClient":
        from tidelog.plugins.client.drivers.trio_client import TrioClient

        return TrioClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
