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
    from tidelog.plugins.client.admin.admin import Admin
    from tidelog.plugins.client.admin.async_admin import AsyncAdmin
    from tidelog.plugins.client.cluster import ClusterMetadata, TopicMetadata
    from tidelog.plugins.client.connector.async_connector import AsyncConsumerConnector, AsyncMessageStream
    from tidelog.plugins.client.connector.connector import ConsumerConnector, MessageStream
    from tidelog.plugins.client.connector.settings import ConnectorSettings
    from tidelog.plugins.client.connector.topic_filters import BlackList, WhiteList
    from tidelog.plugins.client.consumer.async_consumer import AsyncConsumer
    from tidelog.plugins.client.consumer.async_simple_consumer import AsyncSimpleConsumer
    from tidelog.plugins.client.consumer.consumer import Consumer
    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord
    from tidelog.plugins.client.consumer.interceptors import ConsumerInterceptor
    from tidelog.plugins.client.consumer.rebalance_listener import RebalanceListener
    from tidelog.plugins.client.consumer.record_batch import RecordBatch
    from tidelog.plugins.client.consumer.settings import ConsumerSettings, SimpleConsumerSettings
    from tidelog.plugins.client.consumer.simple_consumer import SimpleConsumer
    from tidelog.plugins.client.errors import ClientError, PartlyFailed
    from tidelog.plugins.client.fetched import Fetched
    from tidelog.plugins.client.kerberos import KerberosSettings
    from tidelog.plugins.client.oauth import OAuthSettings
    from tidelog.plugins.client.oauth_assertions import OAuthAssertion
    from tidelog.plugins.client.operations.acls import AclBinding, AclBindingFilter
    from tidelog.plugins.client.operations.configs import ConfigChange, ConfigResource, ConfigValue
    from tidelog.plugins.client.operations.delegation_tokens import DelegationToken
    from tidelog.plugins.client.operations.features import Feature
    from tidelog.plugins.client.operations.group_offsets import GroupMetadata, GroupOffset
    from tidelog.plugins.client.operations.groups import GroupDescription, GroupListing, GroupMember
    from tidelog.plugins.client.operations.offsets import FoundOffset
    from tidelog.plugins.client.operations.quotas import QuotaEntity
    from tidelog.plugins.client.operations.scram_users import NewScramPassword, ScramUser
    from tidelog.plugins.client.operations.topics import CreatedTopic, NewTopic
    from tidelog.plugins.client.producer import encoders
    from tidelog.plugins.client.producer.async_producer import AsyncProducer
    from tidelog.plugins.client.producer.delivery import AsyncDelivery, Delivery, RecordMetadata
    from tidelog.plugins.client.producer.interceptors import ProducerInterceptor, ProducerRecord
    from tidelog.plugins.client.producer.producer import Producer
    from tidelog.plugins.client.producer.settings import ProducerSettings
    from tidelog.plugins.client.zookeeper_ensemble import ZooKeeperEnsemble
    from tidelog.plugins.keystores.tls_stores import TlsStores
    from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

__all__ = [
    "EARLIEST_TIMESTAMP",
    "LATEST_TIMESTAMP",
    "AclBinding",
    "AclBindingFilter",
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncConsumerConnector",
    "AsyncDelivery",
    "AsyncMessageStream",
    "AsyncProducer",
    "AsyncSimpleConsumer",
    "BlackList",
    "ClientError",
    "ClusterMetadata",
    "ConfigChange",
    "ConfigResource",
    "ConfigValue",
    "ConnectorSettings",
    "Consumer",
    "ConsumerConnector",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "ConsumerSettings",
    "CreatedTopic",
    "DelegationToken",
    "Delivery",
    "Feature",
    "Fetched",
    "FoundOffset",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupMetadata",
    "GroupOffset",
    "KerberosSettings",
    "MessageStream",
    "NewScramPassword",
    "NewTopic",
    "OAuthAssertion",
    "OAuthSettings",
    "PartlyFailed",
    "Producer",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerSettings",
    "QuotaEntity",
    "RebalanceListener",
    "RecordBatch",
    "RecordMetadata",
    "ScramUser",
    "SimpleConsumer",
    "SimpleConsumerSettings",
    "TlsStores",
    "TopicMetadata",
    "TopicPartition",
    "WhiteList",
    "ZooKeeperEnsemble",
    "encoders",
    "errors",
]

_CLIENT: Final = "tidelog.plugins.client"
_PRODUCER: Final = f"{_CLIENT}.producer"
_CONNECTOR: Final = f"{_CLIENT}.connector"
_CONSUMER: Final = f"{_CLIENT}.consumer"
_LIST_OFFSETS: Final = "tidelog.plugins.protocol_kafka.messages.list_offsets"
_HOMES: Final = {
    "AclBinding": f"{_CLIENT}.operations.acls",
    "AclBindingFilter": f"{_CLIENT}.operations.acls",
    "EARLIEST_TIMESTAMP": _LIST_OFFSETS,
    "LATEST_TIMESTAMP": _LIST_OFFSETS,
    "Admin": f"{_CLIENT}.admin.admin",
    "AsyncAdmin": f"{_CLIENT}.admin.async_admin",
    "AsyncConsumer": f"{_CONSUMER}.async_consumer",
    "AsyncConsumerConnector": f"{_CONNECTOR}.async_connector",
    "AsyncDelivery": f"{_PRODUCER}.delivery",
    "AsyncMessageStream": f"{_CONNECTOR}.async_connector",
    "AsyncProducer": f"{_PRODUCER}.async_producer",
    "AsyncSimpleConsumer": f"{_CONSUMER}.async_simple_consumer",
    "BlackList": f"{_CONNECTOR}.topic_filters",
    "ClientError": f"{_CLIENT}.errors",
    "ClusterMetadata": f"{_CLIENT}.cluster",
    "ConfigChange": f"{_CLIENT}.operations.configs",
    "ConfigResource": f"{_CLIENT}.operations.configs",
    "ConfigValue": f"{_CLIENT}.operations.configs",
    "ConnectorSettings": f"{_CONNECTOR}.settings",
    "Consumer": f"{_CONSUMER}.consumer",
    "ConsumerConnector": f"{_CONNECTOR}.connector",
    "ConsumerInterceptor": f"{_CONSUMER}.interceptors",
    "ConsumerRecord": f"{_CONSUMER}.consumer_record",
    "ConsumerSettings": f"{_CONSUMER}.settings",
    "CreatedTopic": f"{_CLIENT}.operations.topics",
    "DelegationToken": f"{_CLIENT}.operations.delegation_tokens",
    "Delivery": f"{_PRODUCER}.delivery",
    "Feature": f"{_CLIENT}.operations.features",
    "Fetched": f"{_CLIENT}.fetched",
    "FoundOffset": f"{_CLIENT}.operations.offsets",
    "GroupDescription": f"{_CLIENT}.operations.groups",
    "GroupListing": f"{_CLIENT}.operations.groups",
    "GroupMember": f"{_CLIENT}.operations.groups",
    "GroupMetadata": f"{_CLIENT}.operations.group_offsets",
    "GroupOffset": f"{_CLIENT}.operations.group_offsets",
    "KerberosSettings": f"{_CLIENT}.kerberos",
    "MessageStream": f"{_CONNECTOR}.connector",
    "NewScramPassword": f"{_CLIENT}.operations.scram_users",
    "NewTopic": f"{_CLIENT}.operations.topics",
    "OAuthAssertion": f"{_CLIENT}.oauth_assertions",
    "OAuthSettings": f"{_CLIENT}.oauth",
    "PartlyFailed": f"{_CLIENT}.errors",
    "Producer": f"{_PRODUCER}.producer",
    "ProducerInterceptor": f"{_PRODUCER}.interceptors",
    "ProducerRecord": f"{_PRODUCER}.interceptors",
    "ProducerSettings": f"{_PRODUCER}.settings",
    "QuotaEntity": f"{_CLIENT}.operations.quotas",
    "RebalanceListener": f"{_CONSUMER}.rebalance_listener",
    "RecordBatch": f"{_CONSUMER}.record_batch",
    "RecordMetadata": f"{_PRODUCER}.delivery",
    "ScramUser": f"{_CLIENT}.operations.scram_users",
    "SimpleConsumer": f"{_CONSUMER}.simple_consumer",
    "SimpleConsumerSettings": f"{_CONSUMER}.settings",
    "TlsStores": "tidelog.plugins.keystores.tls_stores",
    "TopicMetadata": f"{_CLIENT}.cluster",
    "WhiteList": f"{_CONNECTOR}.topic_filters",
    "ZooKeeperEnsemble": f"{_CLIENT}.zookeeper_ensemble",
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
