"""A good request of every API of groups, offsets and transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.plugins.protocol_kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.plugins.protocol_kafka.messages.delete_groups import DeleteGroupsRequest
from tidelog.plugins.protocol_kafka.messages.describe_groups import DescribeGroupsRequest
from tidelog.plugins.protocol_kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from tidelog.plugins.protocol_kafka.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.plugins.protocol_kafka.messages.end_txn import EndTxnRequest
from tidelog.plugins.protocol_kafka.messages.heartbeat import HeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.join_group import JoinGroupRequest
from tidelog.plugins.protocol_kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.plugins.protocol_kafka.messages.list_groups import ListGroupsRequest
from tidelog.plugins.protocol_kafka.messages.list_transactions import ListTransactionsRequest
from tidelog.plugins.protocol_kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.plugins.protocol_kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.plugins.protocol_kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tidelog.plugins.protocol_kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tidelog.plugins.protocol_kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.plugins.protocol_kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

from .groups_requests import join

if TYPE_CHECKING:
    from collections.abc import Callable

    from .raw_client import RawClient

GROUP, PAYMENTS, NOWHERE, MEMBER = "fuzzed", "fuzzed-payments", "nowhere", "somebody"
ONE_GROUP_BEFORE, ONE_TRANSACTION_BEFORE, ONE_LEAVES_BEFORE = 8, 4, 3


def _join_group(client: RawClient, version: int) -> JoinGroupRequest:
    # Without an id: it is given one, or joins for good in the oldest versions.
    return join(group_id=f"{GROUP}-{version}", session_timeout_ms=6_000, rebalance_timeout_ms=100)


def _sync_group(client: RawClient, version: int) -> SyncGroupRequest:
    assignment = SyncGroupRequestAssignment(member_id=MEMBER, assignment=b"all")
    return SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=MEMBER, assignments=[assignment])


def _heartbeat(client: RawClient, version: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=MEMBER)


def _leave_group(client: RawClient, version: int) -> LeaveGroupRequest:
    if version < ONE_LEAVES_BEFORE:
        return LeaveGroupRequest(group_id=GROUP, member_id=MEMBER)
    return LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=MEMBER)])


def _offset_commit(client: RawClient, version: int) -> OffsetCommitRequest:
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="a")
    topic = OffsetCommitRequestTopic(name=client.topic, topic_id=client.topic_id, partitions=[offset])
    return OffsetCommitRequest(group_id=GROUP, topics=[topic])


def _offset_fetch(client: RawClient, version: int) -> OffsetFetchRequest:
    if version < ONE_GROUP_BEFORE:
        topic = OffsetFetchRequestTopic(name=client.topic, partition_indexes=[0])
        return OffsetFetchRequest(group_id=GROUP, topics=[topic])
    asked = OffsetFetchRequestTopics(name=client.topic, topic_id=client.topic_id, partition_indexes=[0])
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[asked])])


def _offset_delete(client: RawClient, version: int) -> OffsetDeleteRequest:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topic = OffsetDeleteRequestTopic(name=client.topic, partitions=partitions)
    return OffsetDeleteRequest(group_id=GROUP, topics=[topic])


def _add_partitions(client: RawClient, version: int) -> AddPartitionsToTxnRequest:
    # Of a topic that is not there: an open transaction would hold back what is read of the topic.
    topics = [AddPartitionsToTxnTopic(name=NOWHERE, partitions=[0])]
    if version < ONE_TRANSACTION_BEFORE:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=PAYMENTS,
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=topics,
        )
    one = AddPartitionsToTxnTransaction(
        transactional_id=PAYMENTS, producer_id=1, producer_epoch=0, topics=topics
    )
    return AddPartitionsToTxnRequest(transactions=[one])


def _add_offsets(client: RawClient, version: int) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(transactional_id=PAYMENTS, producer_id=1, producer_epoch=0, group_id=GROUP)


def _end_txn(client: RawClient, version: int) -> EndTxnRequest:
    return EndTxnRequest(transactional_id=PAYMENTS, producer_id=1, producer_epoch=0, committed=True)


def _txn_offset_commit(client: RawClient, version: int) -> TxnOffsetCommitRequest:
    offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="a")
    topic = TxnOffsetCommitRequestTopic(name=client.topic, topic_id=client.topic_id, partitions=[offset])
    return TxnOffsetCommitRequest(
        transactional_id=PAYMENTS, group_id=GROUP, producer_id=1, producer_epoch=0, topics=[topic]
    )


def _write_txn_markers(client: RawClient, version: int) -> WriteTxnMarkersRequest:
    topic = WritableTxnMarkerTopic(name=NOWHERE, partition_indexes=[0])
    marker = WritableTxnMarker(
        producer_id=1, producer_epoch=0, transaction_result=True, topics=[topic], coordinator_epoch=0
    )
    return WriteTxnMarkersRequest(markers=[marker])


def _describe_producers(client: RawClient, version: int) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[DescribeProducersTopic(name=client.topic, partition_indexes=[0])])


def _list_transactions(client: RawClient, version: int) -> ListTransactionsRequest:
    return ListTransactionsRequest(state_filters=["Ongoing"], producer_id_filters=[1])


SAMPLES: dict[apis.Api, Callable[[RawClient, int], object]] = {
    apis.JOIN_GROUP: _join_group,
    apis.SYNC_GROUP: _sync_group,
    apis.HEARTBEAT: _heartbeat,
    apis.LEAVE_GROUP: _leave_group,
    apis.DESCRIBE_GROUPS: lambda *_: DescribeGroupsRequest(groups=[GROUP]),
    apis.LIST_GROUPS: lambda *_: ListGroupsRequest(),
    apis.DELETE_GROUPS: lambda *_: DeleteGroupsRequest(groups_names=[GROUP]),
    apis.OFFSET_COMMIT: _offset_commit,
    apis.OFFSET_FETCH: _offset_fetch,
    apis.OFFSET_DELETE: _offset_delete,
    apis.ADD_PARTITIONS_TO_TXN: _add_partitions,
    apis.ADD_OFFSETS_TO_TXN: _add_offsets,
    apis.END_TXN: _end_txn,
    apis.TXN_OFFSET_COMMIT: _txn_offset_commit,
    apis.WRITE_TXN_MARKERS: _write_txn_markers,
    apis.DESCRIBE_TRANSACTIONS: lambda *_: DescribeTransactionsRequest(transactional_ids=[PAYMENTS]),
    apis.LIST_TRANSACTIONS: _list_transactions,
    apis.DESCRIBE_PRODUCERS: _describe_producers,
}
