"""Offsets of groups: the coordinator is found, cached and found again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.client.fakes import (
    ADDRESS,
    ALL_VERSIONS,
    FakeBroker,
    MemoryDriver,
    coordinator_message,
    metadata_message,
)
from tests.tables import for_each
from tidelog.plugins.client import GroupOffset, TopicPartition
from tidelog.plugins.client.cluster import Address
from tidelog.plugins.client.errors import BrokerClosed, BrokerUnreachable, ClientError, ErrorResponse
from tidelog.plugins.client.operations.all_operations import commit_offsets, committed_offsets
from tidelog.plugins.protocol_kafka.messages.api import FIND_COORDINATOR
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.plugins.protocol_kafka.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

OTHER = Address("broker-2", 9092)
BOTH = {1: ADDRESS, 2: OTHER}
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
CLOSED = BrokerClosed("broker-1:9092", "OffsetCommit v9", "the broker closed it")


def committing(*codes: int) -> Any:
    """Answer the partitions of a commit with these errors."""

    def answer(request: OffsetCommitRequest) -> OffsetCommitResponse:
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                    for part, code in zip(topic.partitions, codes, strict=False)
                ],
            )
            for topic in request.topics
        ]
        return OffsetCommitResponse(topics=topics)

    return answer


def fetched(offset: int, *, code: int = 0, group_code: int = 0) -> OffsetFetchResponse:
    part = OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=offset, metadata=None, error_code=code
    )
    topics = [OffsetFetchResponseTopics(name="orders", partitions=[part])]
    group = OffsetFetchResponseGroup(group_id="g", topics=topics, error_code=group_code)
    return OffsetFetchResponse(groups=[group])


def driver(**answers: Any) -> MemoryDriver:
    told = {"Metadata": metadata_message({"orders": [1, 1]}), "FindCoordinator": coordinator_message(1)}
    return MemoryDriver({ADDRESS: FakeBroker({**told, **answers})})


def names(memory: MemoryDriver, address: Address = ADDRESS) -> list[str]:
    return [type(asked.message).__name__.removesuffix("Request") for asked in memory.brokers[address].asked]


def test_commit_offsets_sends_them_to_the_coordinator_and_remembers_it() -> None:
    memory = driver(OffsetCommit=committing(0, 0))
    offsets = {FIRST: GroupOffset(5, "text", 3), SECOND: GroupOffset(6)}
    assert memory.run(commit_offsets, "g", offsets) == {FIRST: None, SECOND: None}
    memory.run(commit_offsets, "g", offsets)
    assert names(memory) == ["FindCoordinator", "Metadata", "OffsetCommit", "OffsetCommit"]
    request: OffsetCommitRequest = memory.brokers[ADDRESS].asked[-1].message
    parts = request.topics[0].partitions
    assert (request.group_id, request.member_id, request.generation_id_or_member_epoch) == ("g", "", -1)
    assert [(p.committed_offset, p.committed_metadata, p.committed_leader_epoch) for p in parts] == [
        (5, "text", 3),
        (6, "", -1),
    ]


def test_commit_offsets_finds_the_coordinator_again_after_it_has_moved() -> None:
    found = [coordinator_message(1), coordinator_message(2)]
    answers = {"Metadata": metadata_message({}, brokers=BOTH), "FindCoordinator": found}
    first = FakeBroker({**answers, "OffsetCommit": committing(ErrorCode.NOT_COORDINATOR)})
    second = FakeBroker({**answers, "OffsetCommit": committing(0)})
    memory = MemoryDriver({ADDRESS: first, OTHER: second})
    assert memory.run(commit_offsets, "g", {FIRST: GroupOffset(5)}) == {FIRST: None}
    assert names(memory, OTHER) == ["OffsetCommit"]
    assert len(memory.pauses) == 1


@pytest.mark.parametrize("failure", [CLOSED, committing(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)])
def test_commit_offsets_retries_what_may_succeed_later(failure: Any) -> None:
    memory = driver(OffsetCommit=[failure, committing(0)])
    assert memory.run(commit_offsets, "g", {FIRST: GroupOffset(5)}) == {FIRST: None}


def test_commit_offsets_returns_the_error_of_each_partition() -> None:
    memory = driver(OffsetCommit=committing(0, ErrorCode.OFFSET_METADATA_TOO_LARGE))
    outcomes = memory.run(commit_offsets, "g", {FIRST: GroupOffset(5), SECOND: GroupOffset(6)})
    assert outcomes[FIRST] is None
    assert isinstance(outcomes[SECOND], ErrorResponse)
    memory = driver(OffsetCommit=OffsetCommitResponse(topics=[]))
    outcome = memory.run(commit_offsets, "g", {FIRST: GroupOffset(5)})[FIRST]
    assert "does not mention it" in str(outcome)


def test_committed_offsets_are_minus_1_for_partitions_without_one() -> None:
    memory = driver(OffsetFetch=fetched(5))
    assert memory.run(committed_offsets, "g", [FIRST, SECOND]) == {
        FIRST: GroupOffset(5),
        SECOND: GroupOffset(-1),
    }
    assert memory.run(committed_offsets, "g") == {FIRST: GroupOffset(5)}
    some, everything = [asked.message for asked in memory.brokers[ADDRESS].asked[-2:]]
    assert some.require_stable
    assert [topic.partition_indexes for topic in some.groups[0].topics] == [[0, 1]]
    assert everything.groups[0].topics is None


def test_committed_offsets_waits_for_a_pending_transaction() -> None:
    memory = driver(OffsetFetch=[fetched(-1, code=ErrorCode.UNSTABLE_OFFSET_COMMIT), fetched(9)])
    assert memory.run(committed_offsets, "g", [FIRST]) == {FIRST: GroupOffset(9)}
    assert len(memory.pauses) == 1


def test_committed_offsets_raises_the_error_of_the_group_or_of_a_partition() -> None:
    memory = driver(OffsetFetch=fetched(-1, group_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    with pytest.raises(ErrorResponse, match="group 'g': GROUP_AUTHORIZATION_FAILED"):
        memory.run(committed_offsets, "g", [FIRST])
    memory = driver(OffsetFetch=fetched(-1, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(ErrorResponse, match="group 'g', orders-0: TOPIC_AUTHORIZATION_FAILED"):
        memory.run(committed_offsets, "g", [FIRST])


def test_committed_offsets_speaks_the_versions_of_old_brokers() -> None:
    part = OffsetFetchResponsePartition(
        partition_index=0, committed_offset=5, metadata="m", error_code=0, committed_leader_epoch=4
    )
    told = OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="orders", partitions=[part])])
    broker = FakeBroker(
        {
            "Metadata": metadata_message({}),
            "FindCoordinator": coordinator_message(1, by_key=False),
            "OffsetFetch": told,
        },
        {**ALL_VERSIONS, 9: (0, 6), 10: (0, 3)},
    )
    memory = MemoryDriver({ADDRESS: broker})
    assert memory.run(committed_offsets, "g", [FIRST]) == {FIRST: GroupOffset(5, "m", 4)}
    assert memory.run(committed_offsets, "g") == {FIRST: GroupOffset(5, "m", 4)}


def test_an_error_of_find_coordinator_is_retried_or_raised() -> None:
    missing = coordinator_message(-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    memory = driver(FindCoordinator=[missing, coordinator_message(1)], OffsetFetch=fetched(5))
    assert memory.run(committed_offsets, "g", [FIRST])[FIRST].offset == 5
    memory = driver(FindCoordinator=coordinator_message(-1, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    with pytest.raises(ErrorResponse, match="group 'g': GROUP_AUTHORIZATION_FAILED"):
        memory.run(committed_offsets, "g", [FIRST])


@pytest.mark.parametrize(
    "failure", [CLOSED, BrokerUnreachable([(ADDRESS, "connection refused")])], ids=["closed", "unreachable"]
)
def test_a_coordinator_that_is_gone_is_looked_up_again(failure: ClientError) -> None:
    answers = {
        "Metadata": metadata_message({}, brokers=BOTH),
        "FindCoordinator": [coordinator_message(1), coordinator_message(2)],
    }
    first = FakeBroker({**answers, "OffsetFetch": failure})
    second = FakeBroker({"OffsetFetch": fetched(5)})
    memory = MemoryDriver({ADDRESS: first, OTHER: second})
    assert memory.run(committed_offsets, "g", [FIRST]) == {FIRST: GroupOffset(5)}
    assert names(memory, OTHER) == ["OffsetFetch"]


@for_each(("newest", "is_by_key"), [(3, False), (4, True), (5, True), (6, True)])
def test_find_coordinator_is_sent_in_the_version_of_the_broker(newest: int, is_by_key: bool) -> None:
    memory = driver(FindCoordinator=coordinator_message(1, by_key=is_by_key), OffsetFetch=fetched(5))
    memory.brokers[ADDRESS].ranges = {**ALL_VERSIONS, FIND_COORDINATOR.key: (0, newest)}
    assert memory.run(committed_offsets, "g", [FIRST]) == {FIRST: GroupOffset(5)}
    asked = memory.brokers[ADDRESS].asked[0]
    assert (asked.header.api_version, asked.message.key_type) == (newest, 0)
    assert (asked.message.key, asked.message.coordinator_keys) == (("", ["g"]) if is_by_key else ("g", []))
