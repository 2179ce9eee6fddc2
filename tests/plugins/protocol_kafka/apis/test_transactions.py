"""Transactions over the wire: every version, what old clients are told, and who is refused what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import CoordinatorLoadInProgress, UnstableOffsetCommit
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.coordination.offsets import OffsetFetch
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.apis.slices import PARTITIONS_PER_SLICE
from tidelog.plugins.protocol_kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.plugins.protocol_kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.plugins.protocol_kafka.messages.api import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
)
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest
from tidelog.plugins.protocol_kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from tidelog.plugins.protocol_kafka.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.plugins.protocol_kafka.messages.end_txn import EndTxnRequest
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdRequest
from tidelog.plugins.protocol_kafka.messages.list_transactions import ListTransactionsRequest
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
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

from .client import Client, versions_of

NAME, TOPIC, GROUP = "orders", "flights", "readers"
TIMEOUT_MS = 60_000


@pytest.fixture
async def client(broker: Broker) -> Client:
    """A connection to a broker with a topic and the logs that clients make by looking for the coordinator."""
    await broker.topics.create(TopicSpec(TOPIC, 2))
    await broker.coordinator.prepare_transactions()
    await broker.coordinator.prepare_groups()
    return Client(broker)


async def init(client: Client, version: int = 5, *, timeout_ms: int = TIMEOUT_MS, **fields: Any) -> Any:
    request = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=timeout_ms, **fields)
    return await client.ask(INIT_PRODUCER_ID, version, request)


async def add(
    client: Client, version: int, producer_id: int, epoch: int, topics: dict[str, list[int]], **fields: Any
) -> dict[tuple[str, int], int]:
    """Codes by partition."""
    asked = [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()]
    if version < 4:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=NAME,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=asked,
        )
        results = (await client.ask(ADD_PARTITIONS_TO_TXN, version, request)).results_by_topic_v3_and_below
    else:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=NAME, producer_id=producer_id, producer_epoch=epoch, topics=asked, **fields
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        (answer,) = (await client.ask(ADD_PARTITIONS_TO_TXN, version, request)).results_by_transaction
        results = answer.topic_results
    return {
        (result.name, partition.partition_index): partition.partition_error_code
        for result in results
        for partition in result.results_by_partition
    }


async def end(client: Client, version: int, producer_id: int, epoch: int, *, commit: bool = True) -> Any:
    request = EndTxnRequest(
        transactional_id=NAME, producer_id=producer_id, producer_epoch=epoch, committed=commit
    )
    return await client.ask(END_TXN, version, request)


async def produce(
    client: Client,
    broker: Broker,
    version: int,
    producer_id: int,
    epoch: int,
    indexes: Sequence[int] = (0,),
    sequence: int = 0,
) -> list[int]:
    """One transactional batch to each partition; codes."""
    batch = make_batch(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )
    data = [PartitionProduceData(index=index, records=memoryview(bytes(batch))) for index in indexes]
    topic = TopicProduceData(
        name=TOPIC, topic_id=broker.topics.get(TOPIC).topic_id.bytes, partition_data=data
    )
    request = ProduceRequest(transactional_id=NAME, acks=-1, timeout_ms=1000, topic_data=[topic])
    answer = await client.ask(PRODUCE, version, request)
    return [partition.error_code for partition in answer.responses[0].partition_responses]


def readable(broker: Broker, index: int = 0) -> int:
    """How far readers of committed data get."""
    return broker.topics.get(TOPIC).partitions[index].log.last_stable_offset


@pytest.mark.parametrize("version", versions_of(INIT_PRODUCER_ID))
async def test_init_producer_id_returns_the_next_epoch_to_every_instance(
    client: Client, version: int
) -> None:
    first, second = await init(client, version), await init(client, version)
    assert (first.error_code, second.error_code) == (0, 0)
    assert second.producer_id == first.producer_id
    assert (first.producer_epoch, second.producer_epoch) == (0, 1)


@pytest.mark.parametrize("version", versions_of(INIT_PRODUCER_ID, 3))
async def test_init_producer_id_of_a_fenced_producer(client: Client, version: int) -> None:
    first = await init(client, version)
    await init(client, version)
    again = await init(client, version, producer_id=first.producer_id, producer_epoch=0)
    told = ErrorCode.INVALID_PRODUCER_EPOCH if version < 4 else ErrorCode.PRODUCER_FENCED
    assert (again.error_code, again.producer_id, again.producer_epoch) == (told, -1, -1)


@pytest.mark.parametrize("timeout_ms", [0, 900_001])
async def test_init_producer_id_refuses_a_timeout_out_of_range(client: Client, timeout_ms: int) -> None:
    answer = await init(client, timeout_ms=timeout_ms)
    assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("version", versions_of(ADD_PARTITIONS_TO_TXN))
@pytest.mark.parametrize("end_version", versions_of(END_TXN))
async def test_add_partitions_to_txn_and_end_txn_in_every_version(
    client: Client, broker: Broker, version: int, end_version: int
) -> None:
    producer_id = (await init(client)).producer_id
    assert await add(client, version, producer_id, 0, {TOPIC: [0, 1]}) == {(TOPIC, 0): 0, (TOPIC, 1): 0}
    assert await produce(client, broker, 9, producer_id, 0, (0, 1)) == [0, 0]
    assert (readable(broker, 0), readable(broker, 1)) == (0, 0)
    ended = await end(client, end_version, producer_id, 0)
    following = (producer_id, 1) if end_version >= 5 else (-1, -1)
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, *following)
    assert (readable(broker, 0), readable(broker, 1)) == (2, 2)


@pytest.mark.parametrize("version", versions_of(ADD_PARTITIONS_TO_TXN))
async def test_add_partitions_to_txn_refuses_unknown_partitions(client: Client, version: int) -> None:
    producer_id = (await init(client)).producer_id
    assert await add(client, version, producer_id, 0, {TOPIC: [0, 7], "unknown": [0]}) == {
        (TOPIC, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        (TOPIC, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("unknown", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize("version", versions_of(ADD_PARTITIONS_TO_TXN, 4))
async def test_add_partitions_to_txn_with_verify_only(client: Client, version: int) -> None:
    producer_id = (await init(client)).producer_id
    await add(client, version, producer_id, 0, {TOPIC: [0]})
    assert await add(client, version, producer_id, 0, {TOPIC: [0, 1]}, verify_only=True) == {
        (TOPIC, 0): 0,
        (TOPIC, 1): ErrorCode.TRANSACTION_ABORTABLE,
    }


@pytest.mark.parametrize("version", range(6))
async def test_add_partitions_to_txn_and_end_txn_refuse_unknown_producers(
    client: Client, version: int
) -> None:
    producer_id = (await init(client)).producer_id
    await init(client)
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else ErrorCode.PRODUCER_FENCED
    for other, epoch, code in (
        (producer_id, 0, fenced),
        (producer_id + 1, 1, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ):
        assert await add(client, version, other, epoch, {TOPIC: [0]}) == {(TOPIC, 0): code}
        assert (await end(client, version, other, epoch)).error_code == code
        if version <= 4:
            request = AddOffsetsToTxnRequest(
                transactional_id=NAME, producer_id=other, producer_epoch=epoch, group_id=GROUP
            )
            assert (await client.ask(ADD_OFFSETS_TO_TXN, version, request)).error_code == code


@pytest.mark.parametrize("version", versions_of(END_TXN))
async def test_end_txn_without_a_transaction(client: Client, version: int) -> None:
    producer_id = (await init(client)).producer_id
    assert (await end(client, version, producer_id, 0)).error_code == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (3, ErrorCode.INVALID_TXN_STATE),
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
        (12, 0),
        (13, 0),
    ],
)
async def test_produce_refuses_batches_outside_of_the_transaction(
    client: Client, broker: Broker, version: int, code: int
) -> None:
    producer_id = (await init(client)).producer_id
    assert await produce(client, broker, version, producer_id, 0, (0, 1)) == [code, code]
    again = await end(client, 5, producer_id, 0)
    assert again.error_code == (0 if version >= 12 else ErrorCode.INVALID_TXN_STATE)
    assert readable(broker) == (2 if version >= 12 else 0)


@pytest.mark.parametrize("version", versions_of(PRODUCE, 3))
async def test_produce_refuses_batches_of_a_fenced_producer(
    client: Client, broker: Broker, version: int
) -> None:
    producer_id = (await init(client)).producer_id
    await add(client, 3, producer_id, 0, {TOPIC: [0]})
    await init(client)
    assert await produce(client, broker, version, producer_id, 0) == [ErrorCode.INVALID_PRODUCER_EPOCH]


@pytest.mark.parametrize("at_start", [True, False])
@pytest.mark.parametrize("verified", [True, False])
async def test_produce_without_transaction_verification(verified: bool, at_start: bool) -> None:
    setting = {"transaction.partition.verification.enable": str(verified).lower()}
    async with running_broker(setting if at_start else {}) as broker:
        if not at_start:
            await broker.controller.alter_broker_config(None, lambda _: setting)
        await broker.topics.create(TopicSpec(TOPIC, 1))
        client = Client(broker)
        producer_id = (await init(client)).producer_id
        code = ErrorCode.INVALID_TXN_STATE if verified else 0
        assert await produce(client, broker, 9, producer_id, 0) == [code]


@pytest.mark.parametrize(("version", "code"), [(9, ErrorCode.NOT_ENOUGH_REPLICAS), (12, 0)])
async def test_produce_while_the_transaction_cannot_be_verified(
    client: Client, broker: Broker, monkeypatch: pytest.MonkeyPatch, version: int, code: int
) -> None:
    """As in Kafka, old clients get an error that they retry on."""
    producer_id = (await init(client)).producer_id

    def load(*_: object) -> None:
        raise CoordinatorLoadInProgress("loading")

    monkeypatch.setattr(broker.coordinator.transactions, "verify_partitions", load)
    assert await produce(client, broker, version, producer_id, 0) == [code]


def offsets(version: int, broker: Broker, producer_id: int, epoch: int = 0) -> TxnOffsetCommitRequest:
    """Position 7 in partition 0, and one in a partition that is not there."""
    partitions = [
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata="")
        for index in (0, 99)
    ]
    return TxnOffsetCommitRequest(
        transactional_id=NAME,
        group_id=GROUP,
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=TOPIC, topic_id=broker.topics.get(TOPIC).topic_id.bytes, partitions=partitions
            )
        ],
    )


def codes_of(answer: Any) -> list[int]:
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


@pytest.mark.parametrize("version", versions_of(TXN_OFFSET_COMMIT))
@pytest.mark.parametrize("commit", [True, False])
async def test_add_offsets_to_txn_and_txn_offset_commit_in_every_version(
    client: Client, broker: Broker, version: int, commit: bool
) -> None:
    producer_id = (await init(client)).producer_id
    if version < 5:
        asked = AddOffsetsToTxnRequest(
            transactional_id=NAME, producer_id=producer_id, producer_epoch=0, group_id=GROUP
        )
        assert (await client.ask(ADD_OFFSETS_TO_TXN, min(version, 4), asked)).error_code == 0
    answer = await client.ask(TXN_OFFSET_COMMIT, version, offsets(version, broker, producer_id))
    assert codes_of(answer) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    fetch = OffsetFetch(GROUP, {TOPIC: [0]}, require_stable=True)
    assert isinstance(broker.coordinator.offsets.fetch(fetch)[TOPIC][0], UnstableOffsetCommit)
    assert (await end(client, 5, producer_id, 0, commit=commit)).error_code == 0
    found: Any = broker.coordinator.offsets.fetch(fetch)[TOPIC][0]
    assert (found.offset if commit else found) == (7 if commit else None)


@pytest.mark.parametrize("version", versions_of(TXN_OFFSET_COMMIT))
async def test_txn_offset_commit_without_add_offsets_to_txn(
    client: Client, broker: Broker, version: int
) -> None:
    producer_id = (await init(client)).producer_id
    told = {4: ErrorCode.TRANSACTION_ABORTABLE, 5: 0, 6: 0}.get(version, ErrorCode.INVALID_TXN_STATE)
    answer = await client.ask(TXN_OFFSET_COMMIT, version, offsets(version, broker, producer_id))
    assert codes_of(answer)[0] == told
    await init(client)
    answer = await client.ask(TXN_OFFSET_COMMIT, version, offsets(version, broker, producer_id))
    assert codes_of(answer)[0] in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.CONCURRENT_TRANSACTIONS)


@pytest.mark.parametrize("version", versions_of(WRITE_TXN_MARKERS))
async def test_write_txn_markers_of_a_tool(client: Client, broker: Broker, version: int) -> None:
    producer_id = (await init(client)).producer_id
    await produce(client, broker, 12, producer_id, 0)
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=0,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0, 9])],
        coordinator_epoch=0,
    )
    answer = await client.ask(WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest(markers=[marker]))
    (told,) = answer.markers
    assert told.producer_id == producer_id
    assert [partition.error_code for partition in told.topics[0].partitions] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert readable(broker) == 2


@pytest.mark.parametrize("version", versions_of(PRODUCE, 12))
async def test_produce_that_adds_its_partition_begins_with_sequence_0(
    client: Client, broker: Broker, version: int
) -> None:
    """As Apache Kafka 4.4.0 does; a retry that comes first would have its predecessor refused."""
    producer_id = (await init(client)).producer_id
    codes = [
        await produce(client, broker, version, producer_id, 0, sequence=sequence)
        for sequence in (5, 1, 0, 1, 5)
    ]
    refused = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert codes == [refused, refused, [0], [0], refused]


async def test_produce_to_very_many_partitions_adds_all_of_them(client: Client, broker: Broker) -> None:
    """They are appended in slices, and the partitions of each slice are added before it."""
    topic = await broker.topics.create(TopicSpec("many", PARTITIONS_PER_SLICE + 1))
    producer_id = (await init(client)).producer_id
    batch = make_batch(producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    data = [
        PartitionProduceData(index=index, records=memoryview(bytes(batch)))
        for index in range(PARTITIONS_PER_SLICE + 1)
    ]
    asked = TopicProduceData(name="many", partition_data=data)
    request = ProduceRequest(transactional_id=NAME, acks=-1, timeout_ms=1000, topic_data=[asked])
    (answer,) = (await client.ask(PRODUCE, 12, request)).responses
    assert {partition.error_code for partition in answer.partition_responses} == {0}
    assert {partition.log.log_end_offset for partition in topic.partitions} == {1}
    assert (await end(client, 5, producer_id, 0)).error_code == 0
    assert {partition.log.last_stable_offset for partition in topic.partitions} == {2}


async def test_produce_in_a_transaction_without_its_own_epoch_begins_with_any_sequence(
    client: Client, broker: Broker
) -> None:
    producer_id = (await init(client)).producer_id
    await add(client, 3, producer_id, 0, {TOPIC: [0]})
    assert await produce(client, broker, 11, producer_id, 0, sequence=5) == [0]


async def test_describe_transactions_and_describe_producers(client: Client, broker: Broker) -> None:
    producer_id = (await init(client)).producer_id
    await produce(client, broker, 12, producer_id, 0)
    asked = DescribeTransactionsRequest(transactional_ids=[NAME, "unknown", ""])
    found, unknown, empty = (await client.ask(DESCRIBE_TRANSACTIONS, 0, asked)).transaction_states
    assert (found.error_code, found.transaction_state, found.producer_id) == (0, "Ongoing", producer_id)
    assert [(data.topic, data.partitions) for data in found.topics] == [(TOPIC, [0])]
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert empty.error_code == ErrorCode.INVALID_REQUEST
    request = DescribeProducersRequest(
        topics=[DescribeProducersTopic(name=TOPIC, partition_indexes=[0, 1, 9])]
    )
    (told,) = (await client.ask(DESCRIBE_PRODUCERS, 0, request)).topics
    assert [partition.error_code for partition in told.partitions] == [
        0,
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    (state,) = told.partitions[0].active_producers
    assert (state.producer_id, state.last_sequence, state.current_txn_start_offset) == (producer_id, 0, 0)


@pytest.mark.parametrize("version", versions_of(LIST_TRANSACTIONS))
async def test_list_transactions(client: Client, version: int) -> None:
    await init(client)

    async def listed(states: list[str] | None = None, pattern: str | None = None) -> Any:
        request = ListTransactionsRequest(
            state_filters=states or [], producer_id_filters=[], transactional_id_pattern=pattern
        )
        return await client.ask(LIST_TRANSACTIONS, version, request)

    everything = await listed()
    assert [(state.transactional_id, state.transaction_state) for state in everything.transaction_states] == [
        (NAME, "Empty")
    ]
    filtered = await listed(["Ongoing", "Imaginary"])
    assert (filtered.unknown_state_filters, filtered.transaction_states) == (["Imaginary"], [])
    if version >= 2:
        refused = await listed(pattern="(")
        assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_list_transactions_before_the_first_one_is_empty(broker: Broker) -> None:
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    answer = await Client(broker).ask(LIST_TRANSACTIONS, 1, request)
    assert (answer.error_code, answer.transaction_states) == (0, [])


@pytest.mark.parametrize("version", versions_of(API_VERSIONS, 3))
async def test_api_versions_announces_the_feature_transaction_version(client: Client, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    answer = await client.ask(API_VERSIONS, version, request)
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    supported = {feature.name for feature in answer.supported_features}
    assert finalized["transaction.version"] == 2
    assert answer.finalized_features_epoch >= 0
    assert ("transaction.version" in supported) is (version >= 4), "older clients cannot decode level 0"
