"""Metadata records of brokers, controllers, feature levels and producer ids.

Source: the schemas of Apache Kafka 4.4's metadata records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.schema.declare import (
    VersionSpan,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
    uuid,
)
from tidelog.plugins.schema.types import UUID

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Uuid

FENCE = 1
UNFENCE = -1
IN_CONTROLLED_SHUTDOWN = 1


@struct(VersionSpan(0, 0, flexible=0))
class FeatureLevelRecord:
    """The finalized level of a feature; 0 removes the feature."""

    name: str = string()
    feature_level: int = int16()


@struct()
class Endpoint:
    """Address of a listener of a broker or controller; `security_protocol` 0 is PLAINTEXT."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@struct()
class SupportedFeature:
    """The levels of a feature that a node supports."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@struct(VersionSpan(0, 4, flexible=0))
class RegisterBrokerRecord:
    """A broker registered; its epoch is the offset of this record's batch."""

    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean(versions="2+", default=False, ignorable=True)
    incarnation_id: Uuid = uuid()
    broker_epoch: int = int64()
    end_points: list[Endpoint] = array(Endpoint)
    features: list[SupportedFeature] = array(SupportedFeature)
    rack: str | None = string(nullable="0+")
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean(versions="1+", default=False, ignorable=True)
    log_dirs: list[Uuid] = array(UUID, versions="3+", tag=0, factory=list, ignorable=True)
    cordoned_log_dirs: list[Uuid] | None = array(
        UUID, versions="4+", nullable="4+", tag=1, default=None, ignorable=True
    )


@struct(VersionSpan(0, 3, flexible=0))
class BrokerRegistrationChangeRecord:
    """Change of a broker's registration; fields with their default keep their value."""

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0, default=0)
    in_controlled_shutdown: int = int8(versions="1+", tag=1, default=0)
    log_dirs: list[Uuid] = array(UUID, versions="2+", tag=2, factory=list)
    cordoned_log_dirs: list[Uuid] | None = array(UUID, versions="3+", nullable="3+", tag=3, default=None)


@struct(VersionSpan(0, 0, flexible=0))
class UnregisterBrokerRecord:
    """A broker was unregistered."""

    broker_id: int = int32()
    broker_epoch: int = int64()


@struct(VersionSpan(0, 0, flexible=0))
class FenceBrokerRecord:
    """A broker is fenced; written before `BrokerRegistrationChangeRecord` existed."""

    id: int = int32()
    epoch: int = int64()


@struct(VersionSpan(0, 0, flexible=0))
class UnfenceBrokerRecord:
    """A broker is unfenced; written before `BrokerRegistrationChangeRecord` existed."""

    id: int = int32()
    epoch: int = int64()


@struct(VersionSpan(0, 0, flexible=0))
class RegisterControllerRecord:
    """A controller registered."""

    controller_id: int = int32()
    incarnation_id: Uuid = uuid()
    zk_migration_ready: bool = boolean()
    end_points: list[Endpoint] = array(Endpoint)
    features: list[SupportedFeature] = array(SupportedFeature)


@struct(VersionSpan(0, 0, flexible=0))
class UnregisterControllerRecord:
    """The registration of a controller was removed (KIP-1312)."""

    controller_id: int = int32()


@struct(VersionSpan(0, 0, flexible=0))
class ProducerIdsRecord:
    """Producer ids below `next_producer_id` were allocated, in blocks."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()
