"""Neither a large state nor a request about much of it holds others up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelog.kernel.records.compression import compress
from tidelog.plugins.protocol_kafka import keys
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
from tidelog.plugins.protocol_kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.plugins.protocol_kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.plugins.protocol_kafka.messages.delete_groups import DeleteGroupsRequest
from tidelog.plugins.protocol_kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.plugins.protocol_kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.describe_groups import DescribeGroupsRequest
from tidelog.plugins.protocol_kafka.messages.describe_log_dirs import DescribeLogDirsRequest
from tidelog.plugins.protocol_kafka.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from tidelog.plugins.protocol_kafka.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.plugins.protocol_kafka.messages.elect_leaders import ElectLeadersRequest
from tidelog.plugins.protocol_kafka.messages.end_txn import EndTxnRequest
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdRequest
from tidelog.plugins.protocol_kafka.messages.join_group import JoinGroupRequestProtocol
from tidelog.plugins.protocol_kafka.messages.list_groups import ListGroupsRequest
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest
from tidelog.plugins.protocol_kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.plugins.protocol_kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

from . import batches
from .groups_requests import join
from .measured import (
    GROUPS,
    HELD_MS,
    MORE_TRIES,
    TRANSACTIONS,
    Measured,
    check,
    find_coordinator,
    measured_broker,
)
from .raw import RawConnection
from .raw_client import produce
from .requests import Sent, ask, response_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST = 0x7FFFFFFF
LARGE_GROUP = "large"
TOPIC = 2
"""The type of resource."""
TIMEOUT_MS = 60_000
MANY_TOPICS, MANY_GROUPS, MANY_MEMBERS, MANY_PARTITIONS = 800, 2_000, 2_000, 10_000
MOVED_PARTITIONS = 200
LARGE_MEMBERS, LARGE_METADATA = 150, 200_000


def _indexes(count: int, topics: int) -> Iterator[tuple[str, range]]:
    """So many partitions of the topics with the most of them."""
    return ((f"large-{number}", range(count // topics)) for number in range(topics))


def _fetch_of(count: int, topics: int = 1) -> Sent:
    asked = [
        FetchTopic(
            topic=name,
            partitions=[FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1) for n in indexes],
        )
        for name, indexes in _indexes(count, topics)
    ]
    return ask(apis.FETCH, 11, FetchRequest(max_wait_ms=200, min_bytes=1, max_bytes=MOST, topics=asked))


def _commit_of(count: int, topics: int = 1) -> Sent:
    asked = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(partition_index=n, committed_offset=1, committed_metadata="")
                for n in indexes
            ],
        )
        for name, indexes in _indexes(count, topics)
    ]
    return ask(apis.OFFSET_COMMIT, 7, OffsetCommitRequest(group_id=LARGE_GROUP, topics=asked))


def _offsets_of(count: int, topics: int) -> Sent:
    asked = [
        ListOffsetsTopic(
            name=name, partitions=[ListOffsetsPartition(partition_index=n, timestamp=-1) for n in indexes]
        )
        for name, indexes in _indexes(count, topics)
    ]
    return ask(apis.LIST_OFFSETS, 5, ListOffsetsRequest(replica_id=-1, topics=asked))


@pytest.mark.parametrize(
    ("request_of", "count", "each_bytes"), [(_fetch_of, 21_000, 30), (_commit_of, 25_000, 6)]
)
def test_requests_of_a_large_cluster_are_served_beside_others(
    request_of: Callable[[int], Sent], count: int, each_bytes: int, measured: Measured
) -> None:
    effect = measured.effect_of([request_of(count)])
    check(effect)
    assert effect.answer_mb * 1e6 > count * each_bytes


TOPICS, PARTITIONS = 5, 50_000
# Each is encoded by the process that sends it: that takes long.
LARGE_STATE: dict[str, Callable[[], Sent]] = {
    "metadata": partial(ask, apis.METADATA, 9, MetadataRequest(topics=None)),
    "describe topic partitions": partial(
        ask,
        apis.DESCRIBE_TOPIC_PARTITIONS,
        0,
        DescribeTopicPartitionsRequest(topics=[], response_partition_limit=PARTITIONS),
    ),
    "fetch": partial(_fetch_of, PARTITIONS, TOPICS),
    "list offsets": partial(_offsets_of, PARTITIONS, TOPICS),
    "commit": partial(_commit_of, PARTITIONS, TOPICS),
    "fetch offsets": partial(
        ask, apis.OFFSET_FETCH, 7, OffsetFetchRequest(group_id=LARGE_GROUP, topics=None)
    ),
    "log directories": partial(ask, apis.DESCRIBE_LOG_DIRS, 1, DescribeLogDirsRequest(topics=None)),
    "elect leaders": partial(
        ask, apis.ELECT_LEADERS, 2, ElectLeadersRequest(topic_partitions=None, timeout_ms=1000)
    ),
}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    """A broker with 50,000 partitions."""
    settings = {"storage": "memory", keys.MAX_REQUEST_PARTITION_SIZE_LIMIT.name: str(PARTITIONS)}
    with measured_broker(tmp_path_factory.mktemp("large"), settings) as broker:
        for name, indexes in _indexes(PARTITIONS, TOPICS):
            broker.client.create(name, {}, len(indexes))
        find_coordinator(broker.client, LARGE_GROUP, GROUPS)
        yield broker


@pytest.mark.long
@pytest.mark.parametrize("request_", LARGE_STATE.values(), ids=LARGE_STATE)
def test_no_request_about_many_partitions_holds_others_up(
    request_: Callable[[], Sent], large: Measured
) -> None:
    check(large.effect_of([request_()]))


def all_held_less(measured: Measured, attempt: Callable[[int], Iterable[Sent]]) -> None:
    """Each request is answered, and none holds the event loop for long; others are tried if one did.

    `attempt` takes a number that no other attempt has: what was created by one is there for the next.
    """
    held: dict[str, float] = {}
    for number in range(1 + MORE_TRIES):
        held = {}
        for sent in attempt(number):
            effect = measured.measure([sent])
            assert effect.answer_mb > 0, sent.api.name
            held[sent.api.name] = max(held.get(sent.api.name, 0.0), effect.held_ms)
        if max(held.values()) < HELD_MS:
            return
    assert not {name: ms for name, ms in held.items() if ms >= HELD_MS}


def _of_many_topics(attempt: int) -> Iterator[Sent]:
    """The life of 800 topics, each step one request for all of them."""
    names = [f"many-{attempt}-{number}" for number in range(MANY_TOPICS)]
    yield ask(
        apis.CREATE_TOPICS,
        7,
        CreateTopicsRequest(
            topics=[
                CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
                for name in names
            ],
            timeout_ms=TIMEOUT_MS,
        ),
    )
    grown = [CreatePartitionsTopic(name=name, count=4, assignments=None) for name in names]
    yield ask(
        apis.CREATE_PARTITIONS,
        3,
        CreatePartitionsRequest(topics=grown, timeout_ms=TIMEOUT_MS, validate_only=False),
    )
    change = IncrementalAlterableConfig(name="retention.ms", config_operation=0, value="1000")
    changed = [
        IncrementalAlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[change])
        for name in names
    ]
    yield ask(
        apis.INCREMENTAL_ALTER_CONFIGS,
        1,
        IncrementalAlterConfigsRequest(resources=changed, validate_only=False),
    )
    described = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
        for name in names
    ]
    yield ask(apis.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=described))
    emptied = [
        DeleteRecordsTopic(
            name=name, partitions=[DeleteRecordsPartition(partition_index=n, offset=-1) for n in range(4)]
        )
        for name in names
    ]
    yield ask(apis.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=emptied, timeout_ms=TIMEOUT_MS))
    deleted = [DeleteTopicState(name=name) for name in names]
    yield ask(apis.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=deleted, timeout_ms=TIMEOUT_MS))


@pytest.mark.long
def test_no_request_about_many_topics_holds_others_up(measured: Measured) -> None:
    all_held_less(measured, _of_many_topics)


def _committed(group_id: str, topic: str) -> Sent:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    return ask(apis.OFFSET_COMMIT, 7, OffsetCommitRequest(group_id=group_id, topics=topics))


@pytest.mark.long
def test_no_request_about_two_thousand_groups_holds_others_up(measured: Measured) -> None:
    client, groups = measured.client, [f"group-{number}" for number in range(MANY_GROUPS)]
    find_coordinator(client, groups[0], GROUPS)

    def attempt(number: int) -> Iterator[Sent]:
        for group_id in groups:
            client.ask_well(_committed(group_id, client.topic))
        yield ask(apis.LIST_GROUPS, 5, ListGroupsRequest())
        yield ask(apis.LIST_GROUPS, 5, ListGroupsRequest(states_filter=["Stable"], types_filter=["consumer"]))
        yield ask(apis.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=groups))
        fetched = [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in groups]
        yield ask(apis.OFFSET_FETCH, 8, OffsetFetchRequest(groups=fetched))
        yield _described(groups)
        yield ask(apis.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=groups))

    all_held_less(measured, attempt)


def _described(group_ids: list[str]) -> Sent:
    request = ConsumerGroupDescribeRequest(group_ids=group_ids, include_authorized_operations=False)
    return ask(apis.CONSUMER_GROUP_DESCRIBE, 1, request)


@pytest.mark.long
def test_no_request_of_two_thousand_members_holds_others_up(measured: Measured) -> None:
    find_coordinator(measured.client, "members", GROUPS)

    def beat(number: int, epoch: int) -> Sent:
        request = ConsumerGroupHeartbeatRequest(
            group_id="members",
            member_id=f"member-{number}",
            member_epoch=epoch,
            rebalance_timeout_ms=TIMEOUT_MS,
            subscribed_topic_names=[measured.client.topic],
            topic_partitions=[],
        )
        return ask(apis.CONSUMER_GROUP_HEARTBEAT, 1, request)

    for number in range(MANY_MEMBERS):
        measured.client.ask_well(beat(number, 0))
    one_more = [beat(MANY_MEMBERS, 0), _described(["members"]), beat(MANY_MEMBERS, -1)]
    all_held_less(measured, lambda _: one_more)


@pytest.mark.long
def test_no_member_with_large_metadata_holds_others_up(measured: Measured) -> None:
    """150 members join with 200 kB each, and the leader gets all of it."""
    find_coordinator(measured.client, "metadata", GROUPS)
    held = [_held_by_joins(measured, f"metadata-{number}") for number in range(1 + MORE_TRIES)]
    assert min(held) < HELD_MS


def _held_by_joins(measured: Measured, group_id: str) -> float:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=bytes(LARGE_METADATA))]
    sent = ask(apis.JOIN_GROUP, 3, join(group_id=group_id, protocols=protocols, rebalance_timeout_ms=500))
    with ExitStack() as stack:
        members = [
            stack.enter_context(RawConnection(measured.server.bootstrap)) for _ in range(LARGE_MEMBERS)
        ]
        measured.gauge.reset()
        for member in members:
            member.send(sent.data)
            measured.ping()
        answers = [response_of(sent, member.frame()) for member in members]
        measured.ping()
        assert {answer.error_code for answer in answers} == {0}
        return measured.gauge.held_ms()


@pytest.mark.long
def test_no_transaction_of_many_partitions_holds_others_up(measured: Measured) -> None:
    client = measured.client
    client.create("in-transactions", {}, MANY_PARTITIONS)
    find_coordinator(client, "t", TRANSACTIONS)
    topics = [AddPartitionsToTxnTopic(name="in-transactions", partitions=list(range(MANY_PARTITIONS)))]

    def attempt(number: int) -> Iterator[Sent]:
        name = f"t-{number}"
        init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
        producer = client.ask_well(ask(apis.INIT_PRODUCER_ID, 4, init))
        producer_id, epoch = producer.producer_id, producer.producer_epoch
        yield ask(
            apis.ADD_PARTITIONS_TO_TXN,
            3,
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            ),
        )
        yield ask(apis.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(transactional_ids=[name]))
        end = EndTxnRequest(
            transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=True
        )
        yield ask(apis.END_TXN, 3, end)

    all_held_less(measured, attempt)


@pytest.mark.long
def test_no_message_set_made_of_a_large_batch_holds_others_up(measured: Measured) -> None:
    """The answer of Fetch 3 is one of 60,000 records, that are packed well."""
    client = measured.client
    client.create("down-converted", {"max.message.bytes": str(1 << 24)})
    body = b"".join(batches.record(b"a" * 100, offset_delta=n) for n in range(60_000))
    packed = compress(batches.ZSTD, body)
    batch = batches.batch(attributes=batches.ZSTD, body=packed, count=60_000, last_offset_delta=59_999)
    client.ask_well(ask(apis.PRODUCE, 9, produce("down-converted", batch)))
    requests: list[Sent] = []
    for at in (0, 30_000, 59_999):
        partition = FetchPartition(partition=0, fetch_offset=at, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic="down-converted", partitions=[partition])]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics)
        requests.append(ask(apis.FETCH, 3, request))
    all_held_less(measured, lambda _: requests)


@pytest.mark.long
def test_no_move_of_many_partitions_holds_others_up(tmp_path: Path) -> None:
    places = [tmp_path / "one", tmp_path / "other"]
    with measured_broker(tmp_path, {"log.dirs": ",".join(map(str, places))}) as measured:
        measured.client.create("moved", {}, MOVED_PARTITIONS)

        def attempt(number: int) -> Iterator[Sent]:
            for place in places:
                topics = [AlterReplicaLogDirTopic(name="moved", partitions=list(range(MOVED_PARTITIONS)))]
                dirs = [AlterReplicaLogDir(path=str(place), topics=topics)]
                yield ask(apis.ALTER_REPLICA_LOG_DIRS, 2, AlterReplicaLogDirsRequest(dirs=dirs))

        all_held_less(measured, attempt)
