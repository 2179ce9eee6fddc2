"""OffsetFetch: one group and many, everything and some, and the codes of what is not known."""

from __future__ import annotations

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetToCommit
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.topics import Topic
from tidelog.plugins.protocol_kafka.messages.api import OFFSET_FETCH
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)

from .client import Client, versions_of
from .offsets import IDS_SINCE, MANY_GROUPS_SINCE, commit_request, fetch_request, fetched
from .topics import new_topic

EVERYTHING_SINCE = 2
STABLE_SINCE = 7
MEMBERS_SINCE = 9


async def with_offsets(broker: Broker) -> Topic:
    """A topic whose partition 0 was committed by `group`."""
    topic = await new_topic(broker, partitions=2)
    await broker.coordinator.prepare_groups()
    broker.coordinator.offsets.commit(OffsetCommit("group", [OffsetToCommit(topic.name, 0, 7, 2, "so far")]))
    return topic


@pytest.mark.parametrize("version", versions_of(OFFSET_FETCH))
async def test_offset_fetch_in_every_version(client: Client, broker: Broker, version: int) -> None:
    topic = await with_offsets(broker)
    response = await client.ask(OFFSET_FETCH, version, fetch_request(version, [0, 1], topic))
    nothing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version == 0 else 0
    assert fetched(version, response) == (0, [(0, 7, "so far", 0), (1, -1, "", nothing)])
    if version >= 5:
        answer = response if version < MANY_GROUPS_SINCE else response.groups[0]
        epochs = [found.committed_leader_epoch for found in answer.topics[0].partitions]
        assert epochs == [2, -1]


@pytest.mark.parametrize("version", versions_of(OFFSET_FETCH, EVERYTHING_SINCE))
async def test_offset_fetch_of_all_partitions(client: Client, broker: Broker, version: int) -> None:
    topic = await with_offsets(broker)
    response = await client.ask(OFFSET_FETCH, version, fetch_request(version, None, topic))
    assert fetched(version, response) == (0, [(0, 7, "so far", 0)])
    (answer,) = response.topics if version < MANY_GROUPS_SINCE else response.groups[0].topics
    if version >= IDS_SINCE:
        assert (answer.name, answer.topic_id) == ("", topic.topic_id.bytes)
    else:
        assert answer.name == topic.name
    response = await client.ask(OFFSET_FETCH, version, fetch_request(version, None, topic, "nobody"))
    assert fetched(version, response) == (0, [])


@pytest.mark.parametrize("version", versions_of(OFFSET_FETCH))
async def test_offset_fetch_of_unknown_topics(client: Client, broker: Broker, version: int) -> None:
    await with_offsets(broker)
    response = await client.ask(OFFSET_FETCH, version, fetch_request(version, [3], "nowhere"))
    code = 0
    if version == 0:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif version >= IDS_SINCE:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    assert fetched(version, response) == (0, [(3, -1, "", code)])


async def test_offset_fetch_returns_a_duplicate_group_once(client: Client, broker: Broker) -> None:
    topic = await with_offsets(broker)
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("group", "nobody", "group")]
    response = await client.ask(OFFSET_FETCH, 8, OffsetFetchRequest(groups=groups))
    assert [(group.group_id, len(group.topics)) for group in response.groups] == [
        ("group", 1),
        ("nobody", 0),
    ]
    assert response.groups[0].topics[0].name == topic.name


@pytest.mark.parametrize("version", versions_of(OFFSET_FETCH, MEMBERS_SINCE))
async def test_offset_fetch_of_a_member_of_an_unknown_group(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await with_offsets(broker)
    request = fetch_request(version, [0], topic, "nobody", member_id="member", member_epoch=1)
    response = await client.ask(OFFSET_FETCH, version, request)
    assert fetched(version, response) == (0, [(0, -1, "", 0)])


@pytest.mark.parametrize("version", versions_of(OFFSET_FETCH))
async def test_offset_fetch_before_any_find_coordinator_request(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await new_topic(broker)
    response = await client.ask(OFFSET_FETCH, version, fetch_request(version, [0, 1], topic))
    code = ErrorCode.NOT_COORDINATOR
    if version < EVERYTHING_SINCE:
        assert fetched(version, response) == (0, [(0, -1, "", code), (1, -1, "", code)])
    else:
        assert fetched(version, response) == (code, [])


@pytest.mark.parametrize("version", versions_of(OFFSET_FETCH, STABLE_SINCE))
async def test_offset_fetch_with_require_stable_of_a_pending_offset(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await with_offsets(broker)
    pending = OffsetCommit("group", [OffsetToCommit(topic.name, 0, 9)], is_transactional=True)
    broker.coordinator.offsets.commit_pending(pending, 1, 0)
    request = fetch_request(version, [0, 1], topic, require_stable=True)
    response = await client.ask(OFFSET_FETCH, version, request)
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert fetched(version, response) == (0, [(0, -1, "", unstable), (1, -1, "", 0)])
    response = await client.ask(OFFSET_FETCH, version, fetch_request(version, [0], topic))
    assert fetched(version, response) == (0, [(0, 7, "so far", 0)])


async def test_offset_fetch_omits_offsets_of_a_deleted_topic_of_the_same_name(
    client: Client, broker: Broker
) -> None:
    topic = await with_offsets(broker)
    earlier = [OffsetToCommit(topic.name, 1, 5, topic_id=b"\1" * 16)]
    broker.coordinator.offsets.commit(OffsetCommit("group", earlier))
    by_id = await client.ask(OFFSET_FETCH, 10, fetch_request(10, [0, 1], topic))
    assert fetched(10, by_id) == (0, [(0, 7, "so far", 0), (1, -1, "", 0)])
    by_name = await client.ask(OFFSET_FETCH, 9, fetch_request(9, [1], topic))
    assert fetched(9, by_name) == (0, [(1, 5, "", 0)])


async def test_offset_fetch_without_a_coordinator() -> None:
    async with running_broker({"plugins.blocked": "coordinator"}) as broker:
        topic = await new_topic(broker)
        response = await Client(broker).ask(OFFSET_FETCH, 8, fetch_request(8, [0], topic))
        assert fetched(8, response) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])


def test_offset_fetch_requests_have_the_fields_of_their_version() -> None:
    assert fetch_request(7, None, "t").topics is None
    assert commit_request({0: 1}, "t").topics[0].partitions[0].committed_offset == 1
