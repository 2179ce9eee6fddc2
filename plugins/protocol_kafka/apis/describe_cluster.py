"""DescribeCluster (API 60): the brokers of the cluster and its controller."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError, MismatchedEndpointType, UnsupportedEndpointType
from tidelog.plugins.protocol_kafka.apis.common_fields import CLUSTER_OPERATIONS, NOT_ASKED
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.describe_cluster import (
    BROKERS,
    CONTROLLERS,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)


def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Describe the brokers; no broker is ever fenced while it serves clients."""
    try:
        _check(request.endpoint_type)
    except BrokerError as error:
        return DescribeClusterResponse(
            error_code=error_code(error),
            error_message=context.error_message(error),
            cluster_id="",
            brokers=[],
        )
    cluster = context.broker.cluster
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        error_code=0,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack
            )
            for broker in cluster.brokers(context.peer.listener_name)
        ],
        cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
    )


def _check(endpoint_type: int) -> None:
    if endpoint_type == CONTROLLERS:
        raise MismatchedEndpointType(
            "controllers are described by a controller's listener, and this is a broker's"
        )
    if endpoint_type != BROKERS:
        raise UnsupportedEndpointType(f"there is no endpoint type {endpoint_type}")
