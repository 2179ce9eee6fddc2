"""DescribeCluster (key 60): the brokers or the controllers of the cluster (KIP-700, KIP-919, KIP-1073)."""

from __future__ import annotations

from typing import Final

from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_CLUSTER
from tidelog.plugins.schema.declare import array, boolean, int8, int16, int32, string, struct

BROKERS: Final = 1
CONTROLLERS: Final = 2


@struct(DESCRIBE_CLUSTER.versions)
class DescribeClusterRequest:
    """Request nodes of a type, `BROKERS` or `CONTROLLERS`; fenced brokers only if they are wanted."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(versions="1+", default=BROKERS)
    include_fenced_brokers: bool = boolean(versions="2+", default=False)


@struct()
class DescribeClusterBroker:
    """A broker and its address."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean(versions="2+", default=False)


@struct(DESCRIBE_CLUSTER.versions)
class DescribeClusterResponse:
    """The nodes; `cluster_authorized_operations` is a bit field, -2^31 when not requested."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8(versions="1+", default=BROKERS)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-(2**31))
