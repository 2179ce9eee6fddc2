"""Kafka client: a sans-IO core, operations over it, and drivers for blocking code and for trio.

`connection` is the protocol without a socket, `operations` are requests and retries without I/O, which
`engine` runs, and `drivers` own its sockets: `BlockingClient` for blocking code, `TrioClient` for trio. Names
of this package are imported at their first use: a program that only fetches imports neither an event loop nor
what administers topics. Codecs are imported with the first compressed batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidelog.kernel.records.compression import CompressionCodec, offer_codecs

if TYPE_CHECKING:
    from tidelog.kernel.records.batch import iter_batches
    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.batches import EncodedBatch, FetchedBatch, NewRecord, build_batch
    from tidelog.plugins.client.drivers.blocking import BlockingClient
    from tidelog.plugins.client.drivers.trio_client import TrioClient
    from tidelog.plugins.client.fetch_sessions import FetchSessions
    from tidelog.plugins.client.fetched import committed_batches
    from tidelog.plugins.client.operations.configs import ConfigChange, ConfigValue
    from tidelog.plugins.client.operations.fetching import FetchLimits
    from tidelog.plugins.client.operations.group_offsets import GroupOffset
    from tidelog.plugins.client.operations.offsets import FoundOffset
    from tidelog.plugins.client.operations.producing import Produced
    from tidelog.plugins.client.operations.reading import PartitionReader
    from tidelog.plugins.client.operations.sending import or_raise
    from tidelog.plugins.client.operations.topics import CreatedTopic, NewTopic
    from tidelog.plugins.client.producers import IdempotentProducer, TransactionalProducer
    from tidelog.plugins.client.requests import PluginApi
    from tidelog.plugins.client.settings import ClientSettings, RetryPolicy
    from tidelog.plugins.protocol_kafka.messages.list_offsets import (
        EARLIEST_TIMESTAMP,
        LATEST_TIMESTAMP,
        MAX_TIMESTAMP,
    )

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
    "build_batch",
    "committed_batches",
    "iter_batches",
    "or_raise",
]

_LIST_OFFSETS: Final = "tidelog.plugins.protocol_kafka.messages.list_offsets"
_HERE: Final = "tidelog.plugins.client"
_HOMES: Final = {
    "EARLIEST_TIMESTAMP": _LIST_OFFSETS,
    "LATEST_TIMESTAMP": _LIST_OFFSETS,
    "MAX_TIMESTAMP": _LIST_OFFSETS,
    "BlockingClient": f"{_HERE}.drivers.blocking",
    "ClientSettings": f"{_HERE}.settings",
    "ConfigChange": f"{_HERE}.operations.configs",
    "ConfigValue": f"{_HERE}.operations.configs",
    "CreatedTopic": f"{_HERE}.operations.topics",
    "EncodedBatch": f"{_HERE}.batches",
    "FetchLimits": f"{_HERE}.operations.fetching",
    "FetchSessions": f"{_HERE}.fetch_sessions",
    "FetchedBatch": f"{_HERE}.batches",
    "FoundOffset": f"{_HERE}.operations.offsets",
    "GroupOffset": f"{_HERE}.operations.group_offsets",
    "IdempotentProducer": f"{_HERE}.producers",
    "NewRecord": f"{_HERE}.batches",
    "NewTopic": f"{_HERE}.operations.topics",
    "PartitionReader": f"{_HERE}.operations.reading",
    "PluginApi": f"{_HERE}.requests",
    "Produced": f"{_HERE}.operations.producing",
    "RetryPolicy": f"{_HERE}.settings",
    "TopicPartition": "tidelog.kernel.topic_partition",
    "TransactionalProducer": f"{_HERE}.producers",
    "TrioClient": f"{_HERE}.drivers.trio_client",
    "build_batch": f"{_HERE}.batches",
    "committed_batches": f"{_HERE}.fetched",
    "iter_batches": "tidelog.kernel.records.batch",
    "or_raise": f"{_HERE}.operations.sending",
}
"""The module of each name."""


def _codecs() -> Iterable[CompressionCodec]:
    from tidelog.plugins.compression import kafka_codecs

    return kafka_codecs()


# A program that is only a client loads no plugins.
offer_codecs(_codecs)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value
