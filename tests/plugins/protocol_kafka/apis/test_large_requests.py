"""Requests with many elements are read and answered in steps, so that other tasks run in between."""

from __future__ import annotations

import pytest

from tests.turns import turns_of_another_task
from tidelog.kernel import pace
from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetToCommit
from tidelog.plugins.protocol_kafka.apis.join_group import MAX_PROTOCOLS
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from tidelog.plugins.protocol_kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tidelog.plugins.protocol_kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from tidelog.plugins.protocol_kafka.messages.api import Api
from tidelog.plugins.protocol_kafka.messages.delete_records import DeleteRecordsRequest, DeleteRecordsTopic
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    BROKER_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from tidelog.plugins.protocol_kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from tidelog.plugins.protocol_kafka.messages.describe_quorum import (
    DescribedPartition,
    DescribedTopic,
    DescribeQuorumRequest,
)
from tidelog.plugins.protocol_kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopic,
)
from tidelog.plugins.protocol_kafka.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.plugins.protocol_kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersTopicPartitions,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.plugins.protocol_kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.plugins.protocol_kafka.messages.list_groups import ListGroupsRequest
from tidelog.plugins.protocol_kafka.messages.list_offsets import ListOffsetsRequest, ListOffsetsTopic
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.plugins.protocol_kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.plugins.protocol_kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderTopic,
)
from tidelog.plugins.protocol_kafka.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tidelog.plugins.protocol_kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tidelog.plugins.schema.layout import FEW_ELEMENTS

from .client import Client

COUNT = 2 * FEW_ELEMENTS
PARTITIONS = [DescribedPartition(partition_index=0)] * COUNT
TOPICS = [DescribeTopicPartitionsTopic(name=f"missing-{number}") for number in range(COUNT)]
LARGE = {
    "alter_user_scram_credentials": (
        apis.ALTER_USER_SCRAM_CREDENTIALS,
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="alice", mechanism=1)] * COUNT, upsertions=[]
        ),
    ),
    "describe_quorum": (
        apis.DESCRIBE_QUORUM,
        DescribeQuorumRequest(topics=[DescribedTopic(topic_name="missing", partitions=PARTITIONS)]),
    ),
    "describe_topic_partitions": (
        apis.DESCRIBE_TOPIC_PARTITIONS,
        DescribeTopicPartitionsRequest(topics=TOPICS),
    ),
    "describe_topic_partitions-invalid_cursor": (
        apis.DESCRIBE_TOPIC_PARTITIONS,
        DescribeTopicPartitionsRequest(topics=TOPICS, cursor=Cursor(topic_name="other", partition_index=0)),
    ),
    "update_features": (
        apis.UPDATE_FEATURES,
        UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="no.such.feature", max_version_level=1)] * COUNT
        ),
    ),
}


NAMES = [f"missing-{number}" for number in range(COUNT)]
TOPICS_ALONE = {
    "add_partitions_to_txn": (
        apis.ADD_PARTITIONS_TO_TXN,
        3,
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="t",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=[]) for name in NAMES],
        ),
    ),
    "alter_replica_log_dirs": (
        apis.ALTER_REPLICA_LOG_DIRS,
        2,
        AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path="/d", topics=[AlterReplicaLogDirTopic(name=name, partitions=[]) for name in NAMES]
                )
            ]
        ),
    ),
    "delete_records": (
        apis.DELETE_RECORDS,
        2,
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=name, partitions=[]) for name in NAMES], timeout_ms=1000
        ),
    ),
    "describe_log_dirs": (
        apis.DESCRIBE_LOG_DIRS,
        4,
        DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=name, partitions=[]) for name in NAMES]),
    ),
    "describe_producers": (
        apis.DESCRIBE_PRODUCERS,
        0,
        DescribeProducersRequest(
            topics=[DescribeProducersTopic(name=name, partition_indexes=[]) for name in NAMES]
        ),
    ),
    "elect_leaders": (
        apis.ELECT_LEADERS,
        2,
        ElectLeadersRequest(
            topic_partitions=[ElectLeadersTopicPartitions(topic=name, partitions=[]) for name in NAMES],
            timeout_ms=1000,
        ),
    ),
    "list_offsets": (
        apis.LIST_OFFSETS,
        5,
        ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[]) for name in NAMES]
        ),
    ),
    "offset_for_leader_epoch": (
        apis.OFFSET_FOR_LEADER_EPOCH,
        4,
        OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic=name, partitions=[]) for name in NAMES]
        ),
    ),
    "write_txn_markers": (
        apis.WRITE_TXN_MARKERS,
        1,
        WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=1,
                    producer_epoch=0,
                    transaction_result=True,
                    topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[]) for name in NAMES],
                    coordinator_epoch=0,
                )
            ]
        ),
    ),
}


async def turns_beside(client: Client, api: Api, version: int, request: object) -> int:
    """Serve a request; how often another task ran meanwhile."""
    async with turns_of_another_task() as turns:
        await client.ask(api, version, request)
    return turns.count


@pytest.fixture
def every_step_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """However short a step is, other tasks run after it."""
    monkeypatch.setattr(pace, "STEP_SECONDS", 0.0)


@pytest.mark.usefixtures("every_step_is_long")
@pytest.mark.parametrize(("api", "request_"), [pytest.param(*row, id=name) for name, row in LARGE.items()])
async def test_request_of_many_elements_is_served_in_steps(
    client: Client, api: Api, request_: object
) -> None:
    """Decoder and encoder have a step for 64 elements; those for single ones are the handler's."""
    assert await turns_beside(client, api, 0, request_) >= COUNT


@pytest.mark.usefixtures("every_step_is_long")
async def test_update_features_names_many_results_in_steps(client: Client) -> None:
    update = FeatureUpdateKey(feature="group.version", max_version_level=1)
    request = UpdateFeaturesRequest(feature_updates=[update] * COUNT)
    assert await turns_beside(client, apis.UPDATE_FEATURES, 1, request) >= 2 * COUNT


@pytest.mark.usefixtures("every_step_is_long")
async def test_describe_transactions_of_a_few_ids_that_take_long_lets_other_tasks_run(client: Client) -> None:
    """A thousand elements are not too many for one step, but their names may have a kilobyte each."""
    few = DescribeTransactionsRequest(transactional_ids=[f"missing-{number}" for number in range(100)])
    assert await turns_beside(client, apis.DESCRIBE_TRANSACTIONS, 0, few) > 90


@pytest.mark.usefixtures("every_step_is_long")
@pytest.mark.parametrize(
    ("api", "version", "request_"), [pytest.param(*row, id=name) for name, row in TOPICS_ALONE.items()]
)
async def test_topics_without_partitions_are_served_in_steps(
    client: Client, api: Api, version: int, request_: object
) -> None:
    """Whatever a request repeats, each of it takes time."""
    assert await turns_beside(client, api, version, request_) >= COUNT


@pytest.mark.usefixtures("every_step_is_long")
@pytest.mark.parametrize("version", [0, 5])
async def test_list_groups_of_many_groups_lets_other_tasks_run(
    client: Client, broker: Broker, version: int
) -> None:
    await broker.coordinator.prepare_groups()
    await broker.topics.create(TopicSpec("t", 1))
    for number in range(COUNT):
        broker.coordinator.offsets.commit(OffsetCommit(f"g{number}", [OffsetToCommit("t", 0, 1)]))
    # The encoder alone has a step for 64 groups.
    request = ListGroupsRequest(states_filter=[])
    assert await turns_beside(client, apis.LIST_GROUPS, version, request) > COUNT // 32 + COUNT // 128
    if version:
        # Groups that do not match take as long; without steps there would be a handful of turns.
        request = ListGroupsRequest(states_filter=["dead"], types_filter=[])
        assert await turns_beside(client, apis.LIST_GROUPS, version, request) > COUNT // 64


@pytest.mark.usefixtures("every_step_is_long")
async def test_topics_of_many_partitions_are_created_and_deleted_in_steps(broker: Broker) -> None:
    async with turns_of_another_task() as turns:
        await broker.topics.create(TopicSpec("many", COUNT))
    # One for each partition that is opened; specifications and stores are made 32 at a time.
    assert turns.count > COUNT + COUNT // 32 + COUNT // 64
    async with turns_of_another_task() as turns:
        await broker.topics.delete("many")
    # One for each partition that is taken offline, and one for each that is dropped.
    assert turns.count > 2 * COUNT - COUNT // 32


@pytest.mark.usefixtures("every_step_is_long")
async def test_list_groups_reads_many_filters_in_steps(client: Client, broker: Broker) -> None:
    await broker.coordinator.prepare_groups()
    request = ListGroupsRequest(states_filter=NAMES, types_filter=NAMES)
    assert await turns_beside(client, apis.LIST_GROUPS, 5, request) > 4 * COUNT // 64


@pytest.mark.usefixtures("every_step_is_long")
async def test_requests_about_many_partitions_let_other_tasks_run(client: Client, broker: Broker) -> None:
    """Each passes over them several times: they are named once, read, registered and compared."""
    await broker.coordinator.prepare_groups()
    await broker.topics.create(TopicSpec("many", COUNT))
    indexes = range(COUNT)
    wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1) for index in indexes]
    fetch = FetchRequest(
        max_wait_ms=1, min_bytes=1, max_bytes=1, topics=[FetchTopic(topic="many", partitions=wanted)]
    )
    # 64 in a step of the decoder and of the encoder, 500 in one of the handler, three times.
    assert await turns_beside(client, apis.FETCH, 11, fetch) > 2 * COUNT // 64 + 3 * COUNT // 500
    deleted = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
    delete = OffsetDeleteRequest(
        group_id="g", topics=[OffsetDeleteRequestTopic(name="many", partitions=deleted)]
    )
    broker.coordinator.offsets.commit(OffsetCommit("g", [OffsetToCommit("many", 0, 1)]))
    assert await turns_beside(client, apis.OFFSET_DELETE, 0, delete) > 2 * COUNT // 64 + COUNT // 500 - 1
    names = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in NAMES])
    assert await turns_beside(client, apis.METADATA, 9, names) > COUNT + COUNT // 32


@pytest.mark.usefixtures("every_step_is_long")
async def test_steps_of_a_handler_and_the_encoder_have_turns_of_their_own(client: Client) -> None:
    """However few steps there are: others run before those that are left, and before the encoder."""
    few = DescribeTransactionsRequest(transactional_ids=["missing"])
    async with turns_of_another_task() as turns:
        for _ in range(COUNT):
            await client.ask(apis.DESCRIBE_TRANSACTIONS, 0, few)
    assert turns.count >= COUNT


@pytest.mark.usefixtures("every_step_is_long")
async def test_describe_configs_of_a_broker_lets_other_tasks_run(client: Client) -> None:
    """One resource has hundreds of keys."""
    broker = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name="1", configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[broker])
    keys = len((await client.ask(apis.DESCRIBE_CONFIGS, 4, request)).results[0].configs)
    assert keys > 300
    assert await turns_beside(client, apis.DESCRIBE_CONFIGS, 4, request) > keys // 64


async def test_join_group_limits_the_protocols_of_a_member(client: Client, broker: Broker) -> None:
    await broker.coordinator.prepare_groups()

    async def join(count: int) -> int:
        protocols = [JoinGroupRequestProtocol(name=f"p{number}", metadata=b"") for number in range(count)]
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=protocols,
        )
        error_code: int = (await client.ask(apis.JOIN_GROUP, 5, request)).error_code
        return error_code

    assert await join(MAX_PROTOCOLS) == ErrorCode.MEMBER_ID_REQUIRED
    assert await join(MAX_PROTOCOLS + 1) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
