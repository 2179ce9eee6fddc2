"""Kafka client: a sans-IO core, operations over it, and drivers for blocking code and for trio.

`connection` is the protocol without a socket, `operations` are requests and retries without I/O, and
`drivers` run them: `BlockingClient` for blocking code, `TrioClient` for trio. Importing this package imports
no event loop; `TrioClient` is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.kernel.seams.compression import register_codecs
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.client.batches import NewRecord
from tidelog.plugins.client.drivers.blocking import BlockingClient
from tidelog.plugins.client.operations import (
    ConfigChange,
    ConfigValue,
    CreatedTopic,
    FetchLimits,
    FoundOffset,
    IdempotentProducer,
    NewTopic,
    PartitionReader,
    Produced,
    or_raise,
)
from tidelog.plugins.client.settings import ClientSettings, RetryPolicy
from tidelog.plugins.compression import tidelog_compression_codecs

if TYPE_CHECKING:
    from tidelog.plugins.client.drivers.trio_client import TrioClient

__all__ = [
    "BlockingClient",
    "ClientSettings",
    "ConfigChange",
    "ConfigValue",
    "CreatedTopic",
    "FetchLimits",
    "FoundOffset",
    "IdempotentProducer",
    "NewRecord",
    "NewTopic",
    "PartitionReader",
    "Produced",
    "RetryPolicy",
    "TopicPartition",
    "TrioClient",
    "or_raise",
]


# A program that is only a client loads no plugins.
register_codecs(tidelog_compression_codecs(), replace=False)


def __getattr__(name: str) -> Any:
    if name == "TrioClient":
        from tidelog.plugins.client.drivers.trio_client import TrioClient

        return TrioClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
