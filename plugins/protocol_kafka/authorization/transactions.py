"""The guards of APIs of idempotent and transactional producers."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from tidelog.kernel.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from tidelog.kernel.pace import ITEMS_PER_STEP
from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.kernel.topic_names import INTERNAL_TOPICS
from tidelog.plugins.protocol_kafka.authorization.guarding import Access, narrowed
from tidelog.plugins.protocol_kafka.authorization.topics import each_topic
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.messages.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
    )
    from tidelog.plugins.protocol_kafka.messages.describe_transactions import (
        DescribeTransactionsRequest,
        DescribeTransactionsResponse,
    )
    from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdRequest
    from tidelog.plugins.protocol_kafka.messages.list_transactions import (
        ListTransactionsRequest,
        ListTransactionsResponse,
    )

TRANSACTIONAL_ID: Final = ResourceType.TRANSACTIONAL_ID
BY_TRANSACTION_SINCE: Final = 4
"""First version of AddPartitionsToTxn that brokers send, for many transactions."""


def init_producer_id(access: Access, request: InitProducerIdRequest) -> Generator[Any, Any, Any]:
    """Need WRITE on the transactional id, TWO_PHASE_COMMIT for that, or of idempotent producers one of two.

    These are IDEMPOTENT_WRITE on the cluster, and WRITE on any topic (KIP-679).
    """
    name = request.transactional_id
    if name is not None:
        _need_id(access, name)
        if request.enable_2pc:
            access.need(
                TRANSACTIONAL_ID, AclOperation.TWO_PHASE_COMMIT, name, TransactionalIdAuthorizationFailed
            )
    elif not (
        access.allows_on_cluster(AclOperation.IDEMPOTENT_WRITE, audited=False)
        or access.allows_any(ResourceType.TOPIC, AclOperation.WRITE)
    ):
        raise ClusterAuthorizationFailed("Cluster authorization failed.")
    return (yield request)


def _need_id(access: Access, name: str) -> None:
    access.need(TRANSACTIONAL_ID, AclOperation.WRITE, name, TransactionalIdAuthorizationFailed)


def add_partitions_to_txn(
    access: Access, request: AddPartitionsToTxnRequest
) -> Generator[Any, AddPartitionsToTxnResponse, AddPartitionsToTxnResponse]:
    """Need WRITE on the transactional id and on each topic, or CLUSTER_ACTION of brokers.

    If one topic is denied nothing is added, and no other partition is attempted.
    """
    if access.context.api_version >= BY_TRANSACTION_SINCE:
        access.need_on_cluster(AclOperation.CLUSTER_ACTION)
        return (yield request)
    _need_id(access, request.v3_and_below_transactional_id)
    asked = request.v3_and_below_topics
    # As in Apache Kafka, it is the coordinator that adds the topic of offsets.
    names = [topic.name for topic in asked if topic.name not in INTERNAL_TOPICS]
    allowed = yield from access.among(ResourceType.TOPIC, AclOperation.WRITE, names)
    if all(topic.name in allowed for topic in asked):
        return (yield request)
    from tidelog.plugins.protocol_kafka.messages import add_partitions_to_txn as messages

    find = access.context.broker.replicas.find

    def code(name: str, index: int) -> ErrorCode:
        if name not in allowed:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if find(name, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    return messages.AddPartitionsToTxnResponse(
        results_by_transaction=[],
        results_by_topic_v3_and_below=[
            messages.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    messages.AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=code(topic.name, index)
                    )
                    for index in topic.partitions
                ],
            )
            for topic in asked
        ],
    )


def add_offsets_to_txn(access: Access, request: Any) -> Generator[Any, Any, Any]:
    """Need WRITE on the transactional id, and READ on the group."""
    _need_id(access, request.transactional_id)
    access.need(ResourceType.GROUP, AclOperation.READ, request.group_id, GroupAuthorizationFailed)
    return (yield request)


def end_txn(access: Access, request: Any) -> Generator[Any, Any, Any]:
    """Need WRITE on the transactional id."""
    _need_id(access, request.transactional_id)
    return (yield request)


def txn_offset_commit(access: Access, request: Any) -> Generator[Any, Any, Any]:
    """Need WRITE on the transactional id, READ on the group, and on each topic."""
    _need_id(access, request.transactional_id)
    access.need(ResourceType.GROUP, AclOperation.READ, request.group_id, GroupAuthorizationFailed)
    return (yield from each_topic(AclOperation.READ, "topics")(access, request))


def describe_transactions(
    access: Access, request: DescribeTransactionsRequest
) -> Generator[Any, DescribeTransactionsResponse, DescribeTransactionsResponse]:
    """Need DESCRIBE on each transactional id; leave out topics without DESCRIBE."""
    from tidelog.plugins.protocol_kafka.messages.describe_transactions import DescribeTransactionsTransaction

    asked = request.transactional_ids
    allowed = yield from access.among(TRANSACTIONAL_ID, AclOperation.DESCRIBE, asked)
    response = yield narrowed(request, transactional_ids=[each for each in asked if each in allowed])
    names = [topic.topic for state in response.transaction_states for topic in state.topics]
    visible = yield from access.among(ResourceType.TOPIC, AclOperation.DESCRIBE, names)
    for number, state in enumerate(response.transaction_states, 1):
        state.topics = [topic for topic in state.topics if topic.topic in visible]
        if number % ITEMS_PER_STEP == 0:
            yield
    response.transaction_states = [
        *response.transaction_states,
        *(
            DescribeTransactionsTransaction(
                error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, transactional_id=each
            )
            for each in dict.fromkeys(asked)
            if each not in allowed
        ),
    ]
    return response


def list_transactions(
    access: Access, request: ListTransactionsRequest
) -> Generator[Any, ListTransactionsResponse, ListTransactionsResponse]:
    """List those with DESCRIBE."""
    response = yield request
    names = [state.transactional_id for state in response.transaction_states]
    allowed = yield from access.among(TRANSACTIONAL_ID, AclOperation.DESCRIBE, names)
    response.transaction_states = [
        state for state in response.transaction_states if state.transactional_id in allowed
    ]
    return response
