"""Requests as brokers get them: what is in each, and its version."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import attrs
import pytest

from tests.plugins.client.fakes import (
    ADDRESS,
    ALL_VERSIONS,
    NOW_MS,
    FakeBroker,
    MemoryDriver,
    coordinator_message,
    metadata_message,
)
from tests.tables import for_each
from tidelog.plugins.client import (
    ClientSettings,
    FetchLimits,
    FoundOffset,
    GroupOffset,
    NewRecord,
    NewTopic,
    Produced,
    RetryPolicy,
    TopicPartition,
)
from tidelog.plugins.client.cluster import Address
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.all_operations import (
    commit_offsets,
    committed_offsets,
    create_partitions,
    create_topics,
    delete_topics,
    fetch_partitions,
    init_producer,
    init_transactions,
    list_offsets,
    produce,
    produce_batches,
    send_requests,
)
from tidelog.plugins.client.security import SecuritySettings
from tidelog.plugins.protocol_kafka.messages.api import OFFSET_FETCH
from tidelog.plugins.protocol_kafka.messages.create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tidelog.plugins.protocol_kafka.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from tidelog.plugins.protocol_kafka.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import FetchResponse
from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdResponse
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest
from tidelog.plugins.protocol_kafka.messages.offset_commit import OffsetCommitResponse
from tidelog.plugins.protocol_kafka.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
TOPIC_ID = bytes(range(16))
MISSING = "UNKNOWN_SERVER_ERROR (the broker's answer does not mention it)"


def driver(**answers: Any) -> MemoryDriver:
    """A broker that leads all partitions of two topics."""
    told = {"Metadata": metadata_message({"a": [1, 1], "b": [1]}), "FindCoordinator": coordinator_message(1)}
    return MemoryDriver({ADDRESS: FakeBroker({**told, **answers})})


def last(memory: MemoryDriver) -> Any:
    """The last request."""
    return memory.brokers[ADDRESS].asked[-1].message


def fields(message: Any, *names: str) -> dict[str, Any]:
    """Some fields of a message."""
    return {name: getattr(message, name) for name in names}


def test_changes_of_topics_have_names_counts_and_the_time_that_the_client_waits() -> None:
    created = CreateTopicsResponse(
        topics=[CreatableTopicResult(name="a", error_code=0, num_partitions=2, replication_factor=1)]
    )
    grown = CreatePartitionsResponse(results=[CreatePartitionsTopicResult(name="a", error_code=0)])
    deleted = DeleteTopicsResponse(responses=[DeletableTopicResult(name="a", error_code=0)])
    memory = driver(CreateTopics=created, CreatePartitions=grown, DeleteTopics=deleted)
    found = memory.run(create_topics, [NewTopic("a", 2, 1, {"k": "v"}), NewTopic("c")], validate_only=True)
    topics = last(memory).topics
    assert [
        fields(each, "name", "num_partitions", "replication_factor", "assignments") for each in topics
    ] == [
        {"name": "a", "num_partitions": 2, "replication_factor": 1, "assignments": []},
        {"name": "c", "num_partitions": -1, "replication_factor": -1, "assignments": []},
    ]
    assert [(each.name, each.value) for each in topics[0].configs] == [("k", "v")]
    assert fields(last(memory), "timeout_ms", "validate_only") == {
        "timeout_ms": 30_000,
        "validate_only": True,
    }
    assert str(found["c"]) == f"topic 'c': {MISSING}"
    memory.run(create_topics, [NewTopic("a")])
    assert not last(memory).validate_only

    assert memory.run(create_partitions, {"a": 3, "c": 4}, validate_only=True)["a"] is None
    assert fields(last(memory), "timeout_ms", "validate_only") == {
        "timeout_ms": 30_000,
        "validate_only": True,
    }
    assert [(each.name, each.count, each.assignments) for each in last(memory).topics] == [
        ("a", 3, None),
        ("c", 4, None),
    ]
    memory.run(create_partitions, {"a": 3})
    assert not last(memory).validate_only

    found_errors = memory.run(delete_topics, ["a", "c"])
    assert found_errors["a"] is None
    assert str(found_errors["c"]) == f"topic 'c': {MISSING}"
    assert last(memory).timeout_ms == 30_000
    assert [(each.name, bytes(each.topic_id)) for each in last(memory).topics] == [
        ("a", bytes(16)),
        ("c", bytes(16)),
    ]


def produced(*codes: int) -> Callable[[Any], ProduceResponse]:
    """Answer partitions of topic a with these errors, and others with none."""

    def answer(request: Any) -> ProduceResponse:
        parts = [
            PartitionProduceResponse(
                index=index, error_code=code, base_offset=5, log_append_time_ms=6, log_start_offset=7
            )
            for index, code in enumerate(codes)
        ]
        return ProduceResponse(
            responses=[TopicProduceResponse(name="a", topic_id=TOPIC_ID, partition_responses=parts)]
        )

    return answer


def test_produce_has_acks_and_the_time_that_the_client_waits() -> None:
    memory = driver(Produce=produced(0))
    assert memory.run(produce, A0, [NewRecord(b"v")]) == Produced(A0, 5, 6, 7)
    assert fields(last(memory), "acks", "timeout_ms", "transactional_id") == {
        "acks": -1,
        "timeout_ms": 30_000,
        "transactional_id": None,
    }
    memory.run(produce, A0, [NewRecord(b"v")], acks=1)
    assert last(memory).acks == 1
    assert Produced(A0) == Produced(A0, -1, -1, -1)


@for_each(
    ("code", "requests", "is_sent_again_when_idempotent"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, True),
        (ErrorCode.NOT_ENOUGH_REPLICAS, 2, True),
        (ErrorCode.REQUEST_TIMED_OUT, 1, True),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 1, True),
        (ErrorCode.NETWORK_EXCEPTION, 1, True),
        (ErrorCode.KAFKA_STORAGE_ERROR, 1, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 1, False),
        (ErrorCode.MESSAGE_TOO_LARGE, 1, False),
    ],
)
def test_only_what_was_certainly_not_appended_is_produced_again_without_a_producer(
    code: ErrorCode, requests: int, is_sent_again_when_idempotent: bool
) -> None:
    for is_idempotent, expected in ((False, requests), (True, 1 + is_sent_again_when_idempotent)):
        answers = [produced(code), produced(0)]
        sent = len(answers)
        memory = driver(
            Produce=answers,
            InitProducerId=InitProducerIdResponse(error_code=0, producer_id=3, producer_epoch=0),
        )
        producer = memory.run(init_producer) if is_idempotent else None
        with nullcontext() if expected == 2 else pytest.raises(ErrorResponse, match=code.name):
            memory.run(produce, A0, [NewRecord(b"v")], producer=producer)
        assert sent - len(answers) == expected, f"idempotent: {is_idempotent}"


def test_a_producer_id_is_requested_without_a_transactional_id() -> None:
    memory = driver(InitProducerId=InitProducerIdResponse(error_code=0, producer_id=3, producer_epoch=0))
    assert memory.run(init_producer).producer_id == 3
    assert fields(last(memory), "transactional_id", "transaction_timeout_ms") == {
        "transactional_id": None,
        "transaction_timeout_ms": 2**31 - 1,
    }
    memory.run(init_transactions, "tx")
    assert last(memory).transaction_timeout_ms == 60_000
    refused = driver(InitProducerId=InitProducerIdResponse(error_code=31, producer_id=-1, producer_epoch=-1))
    with pytest.raises(ErrorResponse, match="producer id: CLUSTER_AUTHORIZATION_FAILED"):
        refused.run(init_producer)


def listed(request: Any) -> ListOffsetsResponse:
    """Offset 9 of partition a-0, and nothing else."""
    part = ListOffsetsPartitionResponse(
        partition_index=0, error_code=0, timestamp=5, offset=9, leader_epoch=2
    )
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="a", partitions=[part])])


def test_list_offsets_has_a_timestamp_for_each_partition() -> None:
    memory = driver(ListOffsets=listed)
    found = memory.run(list_offsets, [A0, A1, B0], {A0: 1, A1: 2, B0: 3}, read_committed=True)
    assert fields(last(memory), "replica_id", "isolation_level") == {"replica_id": -1, "isolation_level": 1}
    assert {
        each.name: [(part.partition_index, part.timestamp) for part in each.partitions]
        for each in last(memory).topics
    } == {"a": [(0, 1), (1, 2)], "b": [(0, 3)]}
    assert found[A0] == FoundOffset(9, 5, 2)
    assert str(found[A1]) == f"a-1: {MISSING}"
    memory.run(list_offsets, [A0], EARLIEST_TIMESTAMP)
    assert last(memory).isolation_level == 0
    assert last(memory).topics[0].partitions[0].timestamp == -2
    memory.run(list_offsets, [A0])
    assert last(memory).topics[0].partitions[0].timestamp == -1
    assert FoundOffset(1) == FoundOffset(1, -1, -1)


def test_fetch_has_the_limits_and_no_session() -> None:
    memory = driver(Fetch=FetchResponse(responses=[]))
    limits = FetchLimits(max_bytes=11, min_bytes=12, max_wait_ms=13, read_committed=True)
    for given, expected in ((limits, (11, 12, 13, 1)), (FetchLimits(), (2**20, 1, 500, 0))):
        found = memory.run(fetch_partitions, {A0: 5, A1: 6, B0: 7}, given)
        sent = last(memory)
        assert (sent.max_bytes, sent.min_bytes, sent.max_wait_ms, sent.isolation_level) == expected
        assert fields(sent, "session_id", "session_epoch", "forgotten_topics_data") == {
            "session_id": 0,
            "session_epoch": -1,
            "forgotten_topics_data": [],
        }
        assert [
            [(part.partition, part.fetch_offset, part.partition_max_bytes) for part in each.partitions]
            for each in sent.topics
        ] == [[(0, 5, given.max_bytes), (1, 6, given.max_bytes)], [(0, 7, given.max_bytes)]]
        assert [bytes(each.topic_id) for each in sent.topics] == [TOPIC_ID, TOPIC_ID]
        assert str(found[A1]) == f"a-1: {MISSING}"


def test_a_fetch_leaves_the_broker_the_time_that_it_waits() -> None:
    other = Address("broker-2", 9092)
    told = metadata_message({"a": [1, 2], "b": [1]}, brokers={1: ADDRESS, 2: other})
    brokers = {
        address: FakeBroker({"Metadata": told, "ListOffsets": listed, "Fetch": FetchResponse(responses=[])})
        for address in (ADDRESS, other)
    }
    memory = MemoryDriver(brokers)
    memory.run(list_offsets, [A0])
    memory.run(send_requests, [MetadataRequest(topics=[])])
    assert set(memory.delays) == {0.0}
    for partitions, delays, wait_ms in (([B0], [0.7], 700), ([A0, A1], [0.35, 0.35], 350)):
        memory.delays.clear()
        memory.run(fetch_partitions, dict.fromkeys(partitions, 0), FetchLimits(max_wait_ms=700))
        assert memory.delays == delays
        assert last(memory).max_wait_ms == wait_ms


@for_each(("version", "stable"), [(6, False), (7, True), (8, True), (9, True)])
def test_committed_offsets_names_partitions_or_asks_for_all(version: int, stable: bool) -> None:
    answer = OffsetFetchResponse(
        groups=[OffsetFetchResponseGroup(group_id="g", topics=[])] if version >= 8 else []
    )
    memory = driver(OffsetFetch=answer)
    memory.brokers[ADDRESS].ranges = {**ALL_VERSIONS, OFFSET_FETCH.key: (1, version)}
    assert memory.run(committed_offsets, "g", [A0, A1, B0]) == dict.fromkeys([A0, A1, B0], GroupOffset(-1))
    sent = last(memory)
    group = sent.groups[0] if version >= 8 else sent
    assert (group.group_id, sent.require_stable) == ("g", stable)
    assert [(each.name, list(each.partition_indexes)) for each in group.topics] == [("a", [0, 1]), ("b", [0])]
    assert memory.run(committed_offsets, "g") == {}
    group = last(memory).groups[0] if version >= 8 else last(memory)
    assert group.topics is None


def test_commit_offsets_without_an_answer_for_a_partition_is_its_error() -> None:
    memory = driver(OffsetCommit=OffsetCommitResponse(topics=[]))
    outcomes = memory.run(commit_offsets, "g", {A0: GroupOffset(1)})
    assert str(outcomes[A0]) == f"a-0: {MISSING}"
    assert GroupOffset(1) == GroupOffset(1, "", -1)


def test_settings_are_those_of_kafkas_clients() -> None:
    found = attrs.asdict(ClientSettings())
    assert found == {
        "client_id": "tidelog",
        "request_timeout_s": 30.0,
        "operation_timeout_s": 60.0,
        "connect_timeout_s": 10.0,
        "max_block_s": 60.0,
        "max_response_bytes": found["max_response_bytes"],
        "retry": attrs.asdict(RetryPolicy()),
        "security": attrs.asdict(SecuritySettings()),
    }
    assert SecuritySettings().security_protocol == "PLAINTEXT"
    assert attrs.asdict(RetryPolicy()) == {
        "retries": 10,
        "backoff_s": 0.1,
        "max_backoff_s": 1.0,
        "jitter": 0.2,
        "missing_topic_s": float("inf"),
    }
    pauses = [[RetryPolicy().pause_s(attempt) for _ in range(50)] for attempt in range(6)]
    for of_attempt, middle in zip(pauses, (0.1, 0.2, 0.4, 0.8, 1.0, 1.0), strict=True):
        assert all(middle * 0.8 <= each <= middle * 1.2 for each in of_attempt)
        assert max(of_attempt) > middle > min(of_attempt)
    assert len(list(RetryPolicy().pauses())) == 10
    assert NOW_MS > 0


def test_an_empty_call_asks_for_nothing() -> None:
    memory = driver()
    assert memory.run(produce_batches, {}) == {}
    assert memory.run(list_offsets, []) == {}
    names = {type(asked.message).__name__ for asked in memory.brokers[ADDRESS].asked}
    assert names <= {"MetadataRequest"}
    assert not isinstance(memory.run(list_offsets, []), ClientError)
