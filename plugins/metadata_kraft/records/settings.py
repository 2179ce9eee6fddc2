"""Metadata records of configuration and of client quotas.

Source: the schemas of Apache Kafka 4.3's metadata records.
"""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.codecs.declare import (
    VersionSpan,
    array,
    boolean,
    float64,
    int8,
    string,
    struct,
)

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4


@struct(VersionSpan(0, 0, flexible=0))
class ConfigRecord:
    """A configuration key of a resource got a value, or lost it if that is null."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable="0+")


@struct()
class QuotaEntity:
    """One part of what a quota is for, such as a user; a name of null is the default."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@struct(VersionSpan(0, 0, flexible=0))
class ClientQuotaRecord:
    """A quota was set or removed."""

    entity: list[QuotaEntity] = array(QuotaEntity)
    key: str = string()
    value: float = float64()
    remove: bool = boolean()
