"""The guards of APIs that are about the cluster, and not refused as others are."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from tidelog.kernel.metadata.acls import CLUSTER_NAME
from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.plugins.protocol_kafka.apis.common_fields import NOT_ASKED
from tidelog.plugins.protocol_kafka.authorization.guarding import Access
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.messages.describe_cluster import (
        DescribeClusterRequest,
        DescribeClusterResponse,
    )
    from tidelog.plugins.protocol_kafka.messages.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
    )
    from tidelog.plugins.protocol_kafka.messages.elect_leaders import (
        ElectLeadersRequest,
        ElectLeadersResponse,
    )

REFUSED: Final = "Cluster authorization failed."


def describe_cluster(
    access: Access, request: DescribeClusterRequest
) -> Generator[Any, DescribeClusterResponse, DescribeClusterResponse]:
    """Leave out of the authorized operations what is not allowed; all else is for everyone."""
    operations = cluster_operations(access) if request.include_cluster_authorized_operations else NOT_ASKED
    response = yield request
    if response.cluster_authorized_operations != NOT_ASKED:
        response.cluster_authorized_operations = operations
    return response


def cluster_operations(access: Access) -> int:
    """Return the bits of what is allowed with the cluster, none without DESCRIBE."""
    if not access.allows_on_cluster(AclOperation.DESCRIBE):
        return 0
    return access.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def elect_leaders(
    access: Access, request: ElectLeadersRequest
) -> Generator[Any, ElectLeadersResponse, ElectLeadersResponse]:
    """Need ALTER on the cluster; a refusal has the error of each partition, too."""
    if access.allows_on_cluster(AclOperation.ALTER):
        return (yield request)
    from tidelog.plugins.protocol_kafka.messages import elect_leaders as messages

    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return messages.ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            messages.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    messages.PartitionResult(partition_id=index, error_code=code, error_message=REFUSED)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def describe_user_scram_credentials(
    access: Access, request: DescribeUserScramCredentialsRequest
) -> Generator[Any, DescribeUserScramCredentialsResponse, DescribeUserScramCredentialsResponse]:
    """Need DESCRIBE on the cluster; a refusal has the error for each user, without the name."""
    if access.allows_on_cluster(AclOperation.DESCRIBE):
        return (yield request)
    from tidelog.plugins.protocol_kafka.messages import describe_user_scram_credentials as messages

    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return messages.DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=REFUSED,
        results=[
            messages.DescribeUserScramCredentialsResult(
                user="", error_code=code, error_message=REFUSED, credential_infos=[]
            )
            for _ in request.users or ()
        ],
    )
