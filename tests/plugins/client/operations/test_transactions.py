"""Transactions: what is sent to whom, what is retried, and what an error leads to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.client.fakes import (
    ADDRESS,
    FakeBroker,
    MemoryDriver,
    coordinator_message,
    metadata_message,
)
from tests.tables import for_each
from tidelog.kernel.records import parse_header
from tidelog.plugins.client import GroupOffset, NewRecord, TopicPartition, TransactionalProducer
from tidelog.plugins.client.cluster import Address
from tidelog.plugins.client.errors import (
    BrokerClosed,
    ClientError,
    ErrorResponse,
    FencedProducer,
    IllegalTransactionState,
)
from tidelog.plugins.client.operations.all_operations import (
    abort_transaction,
    commit_transaction,
    init_transactions,
    produce,
    send_offsets,
)
from tidelog.plugins.client.operations.transactions import add_partitions
from tidelog.plugins.client.producers import ProducerTransactionState
from tidelog.plugins.protocol_kafka.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from tidelog.plugins.protocol_kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from tidelog.plugins.protocol_kafka.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.plugins.protocol_kafka.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
RECORDS = [NewRecord(b"one"), NewRecord(b"two")]
CLOSED = BrokerClosed("broker-1:9092", "EndTxn v4", "the broker closed it")
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


def inited(epoch: int = 0, code: int = 0) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=5, producer_epoch=epoch)


def added(*codes: int) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        for index, code in enumerate(codes)
    ]
    topic = AddPartitionsToTxnTopicResult(name="orders", results_by_partition=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])


def produced(code: int = 0, index: int = 0) -> ProduceResponse:
    part = PartitionProduceResponse(index=index, error_code=code, base_offset=7)
    return ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=[part])])


def committed(code: int = 0) -> TxnOffsetCommitResponse:
    part = TxnOffsetCommitResponsePartition(partition_index=0, error_code=code)
    return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="input", partitions=[part])])


def ended(code: int = 0) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)


def driver(**answers: Any) -> MemoryDriver:
    usual = {
        "Metadata": metadata_message({"orders": [1, 1]}),
        "FindCoordinator": coordinator_message(1),
        "InitProducerId": inited(),
        "AddPartitionsToTxn": added(0),
        "AddOffsetsToTxn": AddOffsetsToTxnResponse(error_code=0),
        "TxnOffsetCommit": committed(),
        "Produce": produced(),
        "EndTxn": ended(),
    }
    return MemoryDriver({ADDRESS: FakeBroker({**usual, **answers})})


def begun(memory: MemoryDriver) -> TransactionalProducer:
    producer = memory.run(init_transactions, "tx")
    producer.begin_transaction()
    return producer


def asked_of(memory: MemoryDriver, name: str) -> list[Any]:
    every = memory.brokers[ADDRESS].asked
    return [asked for asked in every if type(asked.message).__name__ == f"{name}Request"]


def test_init_transactions_returns_a_producer_with_its_epoch() -> None:
    memory = driver(InitProducerId=[inited(code=CONCURRENT), inited(3)])
    producer = memory.run(init_transactions, "tx", timeout_ms=1234)
    assert (producer.producer_id, producer.producer_epoch, producer.timeout_ms) == (5, 3, 1234)
    request: InitProducerIdRequest = asked_of(memory, "InitProducerId")[-1].message
    assert (request.transactional_id, request.transaction_timeout_ms) == ("tx", 1234)
    assert (request.producer_id, request.producer_epoch) == (-1, -1)
    assert len(memory.pauses) == 1


def test_init_transactions_raises_an_error_that_no_retry_helps() -> None:
    with pytest.raises(ErrorResponse, match="transactional id 'tx': INVALID_TRANSACTION_TIMEOUT"):
        driver(InitProducerId=inited(code=ErrorCode.INVALID_TRANSACTION_TIMEOUT)).run(init_transactions, "tx")


def test_produce_adds_each_partition_once_and_marks_batches_as_transactional() -> None:
    memory = driver(Produce=[produced(), produced(), produced(index=1)])
    producer = begun(memory)
    for partition in (FIRST, FIRST, SECOND):
        memory.run(produce, partition, RECORDS, producer=producer)
    additions: list[AddPartitionsToTxnRequest] = [
        asked.message for asked in asked_of(memory, "AddPartitionsToTxn")
    ]
    assert [each.v3_and_below_topics[0].partitions for each in additions] == [[0], [1]]
    sent = asked_of(memory, "Produce")
    assert {(asked.header.api_version, asked.message.transactional_id) for asked in sent} == {(11, "tx")}
    headers = [parse_header(asked.message.topic_data[0].partition_data[0].records) for asked in sent]
    assert [(h.is_transactional, h.producer_id, h.base_sequence) for h in headers] == [
        (True, 5, 0),
        (True, 5, 2),
        (True, 5, 0),
    ]


def test_produce_without_a_transaction_is_refused_before_anything_is_sent() -> None:
    memory = driver()
    producer = memory.run(init_transactions, "tx")
    with pytest.raises(IllegalTransactionState):
        memory.run(produce, FIRST, RECORDS, producer=producer)
    assert not asked_of(memory, "AddPartitionsToTxn")


def test_produce_retries_adding_a_partition_while_the_last_transaction_ends() -> None:
    memory = driver(AddPartitionsToTxn=[added(CONCURRENT), CLOSED, added(0)])
    memory.run(produce, FIRST, RECORDS, producer=begun(memory))
    assert len(memory.pauses) == 2


def test_produce_raises_the_error_that_kept_partitions_from_being_added() -> None:
    refusal = added(ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    memory = driver(AddPartitionsToTxn=refusal)
    producer = begun(memory)
    with pytest.raises(ErrorResponse, match="orders-1: TOPIC_AUTHORIZATION_FAILED"):
        memory.run(produce, FIRST, RECORDS, producer=producer)
    assert producer.state is ProducerTransactionState.FAILED


@for_each(
    "answers",
    [
        {"AddPartitionsToTxn": added(ErrorCode.PRODUCER_FENCED)},
        {"AddPartitionsToTxn": added(ErrorCode.INVALID_PRODUCER_EPOCH)},
        {"Produce": produced(ErrorCode.INVALID_PRODUCER_EPOCH)},
        {"AddOffsetsToTxn": AddOffsetsToTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)},
        {"TxnOffsetCommit": committed(ErrorCode.INVALID_PRODUCER_EPOCH)},
        {"EndTxn": ended(ErrorCode.PRODUCER_FENCED)},
    ],
)
def test_a_fenced_producer_raises_producer_fenced_wherever_it_learns_of_it(answers: dict[str, Any]) -> None:
    memory = driver(**answers)
    producer = begun(memory)
    with pytest.raises(FencedProducer, match="transactional id 'tx'"):
        run_transaction(memory, producer)
    with pytest.raises(FencedProducer):
        memory.run(abort_transaction, producer)


def run_transaction(memory: MemoryDriver, producer: TransactionalProducer) -> None:
    memory.run(produce, FIRST, RECORDS, producer=producer)
    memory.run(send_offsets, producer, "g", {TopicPartition("input", 0): GroupOffset(9, "m")})
    memory.run(commit_transaction, producer)


def test_send_offsets_adds_the_group_once_and_commits_to_its_coordinator() -> None:
    memory = driver(
        TxnOffsetCommit=[committed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), committed(), committed()]
    )
    producer = begun(memory)
    for offset in (9, 10):
        memory.run(send_offsets, producer, "g", {TopicPartition("input", 0): GroupOffset(offset, "m")})
    assert len(asked_of(memory, "AddOffsetsToTxn")) == 1
    last = asked_of(memory, "TxnOffsetCommit")[-1]
    part = last.message.topics[0].partitions[0]
    assert (last.header.api_version, last.message.transactional_id, last.message.group_id) == (4, "tx", "g")
    assert (part.committed_offset, part.committed_metadata) == (10, "m")
    assert {asked.message.key_type for asked in asked_of(memory, "FindCoordinator")} == {0, 1}


def test_send_offsets_that_are_refused_fail_the_transaction() -> None:
    memory = driver(TxnOffsetCommit=committed(ErrorCode.OFFSET_METADATA_TOO_LARGE))
    producer = begun(memory)
    with pytest.raises(ErrorResponse, match="offset of input-0: OFFSET_METADATA_TOO_LARGE"):
        memory.run(send_offsets, producer, "g", {TopicPartition("input", 0): GroupOffset(9)})
    with pytest.raises(IllegalTransactionState):
        memory.run(commit_transaction, producer)


def test_commit_transaction_retries_until_the_coordinator_has_committed() -> None:
    memory = driver(EndTxn=[CLOSED, ended(CONCURRENT), ended(ErrorCode.NOT_COORDINATOR), ended()])
    producer = begun(memory)
    run_transaction(memory, producer)
    assert producer.state is ProducerTransactionState.READY
    requests: list[EndTxnRequest] = [asked.message for asked in asked_of(memory, "EndTxn")]
    assert {(each.transactional_id, each.producer_id, each.committed) for each in requests} == {
        ("tx", 5, True)
    }
    producer.begin_transaction()
    memory.run(produce, FIRST, RECORDS, producer=producer)
    assert len(asked_of(memory, "AddPartitionsToTxn")) == 2


def test_commit_transaction_finds_a_coordinator_that_has_moved() -> None:
    other = Address("broker-2", 9092)
    answers = {
        "Metadata": metadata_message({"orders": [1]}, brokers={1: ADDRESS, 2: other}),
        "FindCoordinator": [coordinator_message(1), coordinator_message(2)],
    }
    memory = driver(**answers, EndTxn=ended(ErrorCode.NOT_COORDINATOR))
    memory.brokers = {**memory.brokers, other: FakeBroker({**answers, "EndTxn": ended()})}
    producer = begun(memory)
    memory.run(produce, FIRST, RECORDS, producer=producer)
    memory.run(commit_transaction, producer)
    assert producer.state is ProducerTransactionState.READY


def test_commit_transaction_that_is_in_doubt_can_be_repeated() -> None:
    memory = driver(EndTxn=[CLOSED] * 4 + [ended()])
    producer = begun(memory)
    with pytest.raises(BrokerClosed):
        run_transaction(memory, producer)
    with pytest.raises(IllegalTransactionState, match="is being committed"):
        memory.run(abort_transaction, producer)
    memory.run(commit_transaction, producer)
    assert producer.state is ProducerTransactionState.READY


@pytest.mark.parametrize("end", [commit_transaction, abort_transaction])
def test_an_empty_transaction_ends_without_a_request(end: Any) -> None:
    memory = driver()
    producer = begun(memory)
    memory.run(end, producer)
    assert producer.state is ProducerTransactionState.READY
    assert not asked_of(memory, "EndTxn")


def test_abort_transaction_keeps_the_epoch_when_all_batches_were_appended() -> None:
    memory = driver()
    producer = begun(memory)
    memory.run(produce, FIRST, RECORDS, producer=producer)
    memory.run(abort_transaction, producer)
    assert [asked.message.committed for asked in asked_of(memory, "EndTxn")] == [False]
    assert len(asked_of(memory, "InitProducerId")) == 1


@pytest.mark.parametrize("failures", [[produced(ErrorCode.MESSAGE_TOO_LARGE)], [CLOSED] * 4])
def test_abort_transaction_after_a_failed_batch_continues_with_a_new_epoch(failures: list[Any]) -> None:
    memory = driver(Produce=[*failures, produced()], InitProducerId=[inited(0), inited(1)])
    producer = begun(memory)
    with pytest.raises(ClientError):
        memory.run(produce, FIRST, RECORDS, producer=producer)
    memory.run(abort_transaction, producer)
    renewal: InitProducerIdRequest = asked_of(memory, "InitProducerId")[-1].message
    assert (renewal.producer_id, renewal.producer_epoch) == (5, 0)
    producer.begin_transaction()
    memory.run(produce, FIRST, RECORDS, producer=producer)
    header = parse_header(asked_of(memory, "Produce")[-1].message.topic_data[0].partition_data[0].records)
    assert (header.producer_epoch, header.base_sequence) == (1, 0)


def test_abort_transaction_that_the_coordinator_does_not_know_has_ended() -> None:
    memory = driver(
        AddPartitionsToTxn=added(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        EndTxn=ended(ErrorCode.INVALID_TXN_STATE),
        InitProducerId=[inited(0), inited(1)],
    )
    producer = begun(memory)
    with pytest.raises(ErrorResponse):
        memory.run(produce, FIRST, RECORDS, producer=producer)
    memory.run(abort_transaction, producer)
    assert (producer.state, producer.producer_epoch) == (ProducerTransactionState.READY, 1)


def test_requests_are_of_the_last_version_before_transaction_version_2() -> None:
    """With a later EndTxn the coordinator raises the epoch, of which this producer would not know."""
    memory = driver()
    run_transaction(memory, begun(memory))
    names = ("AddPartitionsToTxn", "Produce", "TxnOffsetCommit", "EndTxn")
    versions = {name: {asked.header.api_version for asked in asked_of(memory, name)} for name in names}
    assert versions == {"AddPartitionsToTxn": {3}, "Produce": {11}, "TxnOffsetCommit": {4}, "EndTxn": {4}}


def test_add_partitions_needs_an_open_transaction() -> None:
    memory = driver()
    producer = memory.run(init_transactions, "tx")
    with pytest.raises(IllegalTransactionState):
        memory.run(add_partitions, producer, [FIRST])
    assert not asked_of(memory, "AddPartitionsToTxn")
    producer.begin_transaction()
    memory.run(add_partitions, producer, [FIRST, SECOND, TopicPartition("input", 0)])
    (asked,) = asked_of(memory, "AddPartitionsToTxn")
    assert [(each.name, each.partitions) for each in asked.message.v3_and_below_topics] == [
        ("orders", [0, 1]),
        ("input", [0]),
    ]
