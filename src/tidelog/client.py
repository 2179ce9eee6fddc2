"""Clients of Kafka and tidelog, for blocking code and for trio and asyncio.

    from tidelog.client import Producer

    with Producer("127.0.0.1:9092") as producer:
        producer.send("orders", b"a cup of tea")

The classes are for blocking code, those named `Async...` the same for async code. Each name is imported at
its first use, so that a program loads only what it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client import errors
    from tidelog.plugins.client.consumer.async_simple_consumer import AsyncSimpleConsumer
    from tidelog.plugins.client.consumer.settings import SimpleConsumerSettings
    from tidelog.plugins.client.consumer.simple_consumer import SimpleConsumer
    from tidelog.plugins.client.errors import ClientError
    from tidelog.plugins.client.fetched import Fetched
    from tidelog.plugins.client.operations.group_offsets import GroupMetadata, GroupOffset
    from tidelog.plugins.client.producer import encoders
    from tidelog.plugins.client.producer.async_producer import AsyncProducer
    from tidelog.plugins.client.producer.delivery import AsyncDelivery, Delivery, RecordMetadata
    from tidelog.plugins.client.producer.interceptors import ProducerInterceptor, ProducerRecord
    from tidelog.plugins.client.producer.producer import Producer
    from tidelog.plugins.client.producer.settings import ProducerSettings
    from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

__all__ = [
    "EARLIEST_TIMESTAMP",
    "LATEST_TIMESTAMP",
    "AsyncDelivery",
    "AsyncProducer",
    "AsyncSimpleConsumer",
    "ClientError",
    "Delivery",
    "Fetched",
    "GroupMetadata",
    "GroupOffset",
    "Producer",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerSettings",
    "RecordMetadata",
    "SimpleConsumer",
    "SimpleConsumerSettings",
    "TopicPartition",
    "encoders",
    "errors",
]

_CLIENT: Final = "tidelog.plugins.client"
_PRODUCER: Final = f"{_CLIENT}.producer"
_CONSUMER: Final = f"{_CLIENT}.consumer"
_LIST_OFFSETS: Final = "tidelog.plugins.protocol_kafka.messages.list_offsets"
_HOMES: Final = {
    "EARLIEST_TIMESTAMP": _LIST_OFFSETS,
    "LATEST_TIMESTAMP": _LIST_OFFSETS,
    "AsyncDelivery": f"{_PRODUCER}.delivery",
    "AsyncProducer": f"{_PRODUCER}.async_producer",
    "AsyncSimpleConsumer": f"{_CONSUMER}.async_simple_consumer",
    "ClientError": f"{_CLIENT}.errors",
    "Delivery": f"{_PRODUCER}.delivery",
    "Fetched": f"{_CLIENT}.fetched",
    "GroupMetadata": f"{_CLIENT}.operations.group_offsets",
    "GroupOffset": f"{_CLIENT}.operations.group_offsets",
    "Producer": f"{_PRODUCER}.producer",
    "ProducerInterceptor": f"{_PRODUCER}.interceptors",
    "ProducerRecord": f"{_PRODUCER}.interceptors",
    "ProducerSettings": f"{_PRODUCER}.settings",
    "RecordMetadata": f"{_PRODUCER}.delivery",
    "SimpleConsumer": f"{_CONSUMER}.simple_consumer",
    "SimpleConsumerSettings": f"{_CONSUMER}.settings",
    "TopicPartition": "tidelog.kernel.topic_partition",
}
"""The module of each name; the other names are modules themselves."""
_MODULES: Final = {"encoders": f"{_PRODUCER}.encoders", "errors": f"{_CLIENT}.errors"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(_MODULES[name])
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
