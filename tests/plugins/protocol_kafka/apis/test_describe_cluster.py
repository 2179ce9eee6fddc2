"""DescribeCluster: this broker, which is its own controller."""

from __future__ import annotations

import pytest

from tidelog.kernel.broker import Broker
from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_CLUSTER
from tidelog.plugins.protocol_kafka.messages.describe_cluster import (
    BROKERS,
    CONTROLLERS,
    DescribeClusterRequest,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .client import Client, versions_of

ALL_CLUSTER_OPERATIONS = 8096
"""What Apache Kafka without an authorizer returns."""


@pytest.mark.parametrize("version", versions_of(DESCRIBE_CLUSTER))
@pytest.mark.parametrize("operations", [False, True])
async def test_describe_cluster_returns_this_broker_as_its_controller(
    client: Client, broker: Broker, version: int, operations: bool
) -> None:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=operations, include_fenced_brokers=version >= 2
    )
    answer = await client.ask(DESCRIBE_CLUSTER, version, request)
    (endpoint,) = broker.cluster.brokers("PLAINTEXT")
    assert (answer.error_code, answer.error_message, answer.throttle_time_ms) == (0, None, 0)
    assert (answer.cluster_id, answer.controller_id) == (broker.cluster.cluster_id, 1)
    (described,) = answer.brokers
    assert (described.broker_id, described.host, described.port, described.rack) == endpoint
    assert not described.is_fenced
    assert answer.cluster_authorized_operations == (ALL_CLUSTER_OPERATIONS if operations else -(2**31))


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [
        (CONTROLLERS, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
async def test_describe_cluster_refuses_other_endpoint_types(
    client: Client, endpoint_type: int, code: ErrorCode
) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True, endpoint_type=endpoint_type)
    answer = await client.ask(DESCRIBE_CLUSTER, 1, request)
    assert answer.error_code == code
    assert answer.error_message
    assert (answer.brokers, answer.cluster_id, answer.endpoint_type) == ([], "", BROKERS)
